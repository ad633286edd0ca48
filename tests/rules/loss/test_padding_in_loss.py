"""Tests of L215: padding that counts in the loss, and losses that ignore it, in several coding styles and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.loss.padding_in_loss import tagged_sentences, token_cross_entropy, word_cross_entropy
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings


class ClassesOnSecondAxis(nn.Module):
    """Returns (samples, classes, time), as ``torch.nn.CrossEntropyLoss`` expects it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = tagged_sentences()[0]

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(tokens).transpose(1, 2)


def manual_nll(output: Tensor, target: Tensor) -> Tensor:
    return -F.log_softmax(output, -1).gather(-1, target.unsqueeze(-1)).mean()


def bfloat16_loss(output: Tensor, target: Tensor) -> Tensor:
    return token_cross_entropy(output.bfloat16().float(), target)


def masked_loss(output: Tensor, target: Tensor) -> Tensor:
    mask = (target != 0).float()
    return (F.cross_entropy(output.transpose(1, 2), target, reduction="none") * mask).sum() / mask.sum()


def padded_setup(loss_fn: Callable[..., Tensor], model: nn.Module | None = None, padding_target: int = 0) -> Setup:
    """Return a setup of padded sentences whose targets are ``padding_target`` at the padding."""
    default_model, tokens, tags = tagged_sentences()
    return minimal_setup(model or default_model, tokens, torch.where(tokens == 0, padding_target, tags), loss_fn)


def unpadded_setup() -> Setup:
    default_model, tokens, tags = tagged_sentences()
    return minimal_setup(default_model, tokens[:, :4], tags[:, :4], token_cross_entropy)


FAULTY = {
    "manual nll": lambda: padded_setup(manual_nll),
    "bfloat16": lambda: padded_setup(bfloat16_loss),
    "classes on second axis": lambda: padded_setup(nn.CrossEntropyLoss(), ClassesOnSecondAxis()),
    "another index ignored": lambda: padded_setup(nn.CrossEntropyLoss(ignore_index=-1), ClassesOnSecondAxis()),
}
HEALTHY = {
    "classes on second axis": lambda: padded_setup(nn.CrossEntropyLoss(ignore_index=0), ClassesOnSecondAxis()),
    "targets of -100": lambda: padded_setup(token_cross_entropy, padding_target=-100),
    "manual mask": lambda: padded_setup(masked_loss),
    "no padding": unpadded_setup,
    "flat targets": lambda: padded_setup(word_cross_entropy),
}


@pytest.mark.parametrize("name", FAULTY)
def test_padding_in_loss_of_counted_padding_ranks_first_with_its_share(name: str) -> None:
    report = Debugger.of(FAULTY[name]()).checkup()
    assert report[0].code == "L215"
    assert "33% of the targets" in report[0].message


def scaled_mean(output: Tensor, target: Tensor) -> Tensor:
    loss = F.cross_entropy(output.transpose(1, 2), target)
    return (loss * (target != 0).float()).mean()  # the product


def filled_mean(output: Tensor, target: Tensor) -> Tensor:
    loss = F.cross_entropy(output.transpose(1, 2), target)
    return torch.where(target != 0, loss, 0.0).sum() / len(target)  # the product


@pytest.mark.parametrize("loss_fn", [scaled_mean, filled_mean])
def test_mask_of_a_loss_that_is_one_number_is_named(loss_fn: Callable[..., Tensor]) -> None:
    (finding,) = rule_findings(padded_setup(loss_fn), "L215")
    assert finding.where is not None
    assert finding.where.source is not None
    assert "# the product" in finding.where.source
    assert "already one number" in finding.cause
    assert finding.edits == ()


@pytest.mark.parametrize("name", HEALTHY)
def test_padding_in_loss_of_ignored_padding_has_no_faults(name: str) -> None:
    report = Debugger.of(HEALTHY[name]()).checkup()
    assert [str(finding) for finding in report.faults] == []


class Frames(nn.Module):
    """Predicts one or two numbers for each step of a sequence of vectors."""

    def __init__(self, numbers: int = 1) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, numbers)

    def forward(self, frames: Tensor) -> Tensor:
        return self.head(self.layer(frames)[0])


def padded_frames(numbers: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    is_real = (torch.arange(8) < 3 + torch.arange(32).unsqueeze(1) % 5).unsqueeze(2)
    frames, targets = (torch.randn(32, 8, size, generator=generator) * is_real for size in (3, numbers))
    return frames, targets


def loop_debugger(
    model: nn.Module, x: Tensor, y: Tensor, step_loss: Callable[[nn.Module, Tensor, Tensor], Tensor]
) -> Debugger:
    """Watch a loop that computes its loss itself."""
    batches = DataLoader(TensorDataset(x, y), batch_size=16)
    debugger = Debugger(model, batches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with debugger.watch() as run:
        for inputs, targets in batches:
            optimizer.zero_grad()
            step_loss(model, inputs, targets).backward()
            optimizer.step()
    assert not run.error_summary
    return debugger


def flat_step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def flat_model_step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    scores = model(x)
    return sum(F.cross_entropy(scores[:, step], y[:, step]) for step in range(x.shape[1])) / x.shape[1]


def ignoring_step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.masked_fill(x == 0, -100).flatten())


def next_token_step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def next_real_token_step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x[:, :-1]).transpose(1, 2), x[:, 1:], ignore_index=0)


def squared_step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x) - y).square().mean()


def masked_squared_step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    is_real = (x != 0).any(2, keepdim=True)
    return ((model(x) - y).square() * is_real).sum() / is_real.sum()


def tagger() -> tuple[nn.Module, Tensor, Tensor]:
    """Return a tagger whose tag of padding is also the tag of some words."""
    model, tokens, _ = tagged_sentences()
    return model, tokens, tokens % 3


def next_token_model(rows: Tensor) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a model that names no padding, rows without their last token, and the token after each position."""
    return nn.Sequential(nn.Embedding(10, 8), nn.Tanh(), nn.Linear(8, 10)), rows[:, :-1], rows[:, 1:]


def random_rows() -> Tensor:
    return torch.randint(1, 9, (32, 8), generator=torch.Generator().manual_seed(0))


def rows_that_stay_at(token: int) -> Tensor:
    """Return random rows that end in a run of one token, of 0 to 4 positions."""
    return torch.where(torch.arange(8) >= 8 - torch.arange(32).unsqueeze(1) % 5, token, random_rows())


def padded_rows(last_target: int | None = None) -> tuple[nn.Module, Tensor, Tensor]:
    model, x, y = next_token_model(rows_that_stay_at(0))
    if last_target is not None:
        y = torch.cat([y[:, :-1], torch.full_like(y[:, -1:], last_target)], 1)
    return model, x, y


def running_maxima() -> tuple[nn.Module, Tensor, Tensor]:
    """Return rows of the largest token so far, many of which end in the largest of all."""
    return next_token_model(random_rows().cummax(1).values)


def running_maxima_of_frames() -> tuple[nn.Module, Tensor, Tensor]:
    maxima = random_rows().float().unsqueeze(2).cummax(1).values
    return Frames(), maxima[:, :-1].expand(-1, -1, 3), maxima[:, 1:]


LOOPS = {
    "padding that nothing names": (padded_rows, flat_step, "targets[is_padding] = -100"),
    "flat": (lambda: tagger(), flat_step, "targets[is_padding] = -100"),
    "step by step": (lambda: tagger(), flat_model_step, "targets[is_padding] = -100"),
    "language model": (tagged_sentences, next_token_step, "ignore_index=0"),
    "regression": (lambda: (Frames(), *padded_frames(1)), squared_step, "mask"),
    "regression of two numbers": (lambda: (Frames(2), *padded_frames(2)), squared_step, "mask"),
}
HEALTHY_LOOPS = {
    "running maxima": (running_maxima, flat_step),
    "running maxima of frames": (running_maxima_of_frames, squared_step),
    "a last token with targets of its own": (lambda: padded_rows(last_target=9), flat_step),
    "ignored": (lambda: tagger(), ignoring_step),
    "language model": (tagged_sentences, next_real_token_step),
    "regression": (lambda: (Frames(), *padded_frames(1)), masked_squared_step),
    "frames without padding": (lambda: (Frames(), padded_frames(1)[0], torch.ones(32, 8, 1)), masked_squared_step),
    "silent ends with targets": (lambda: (Frames(), padded_frames(1)[0], torch.randn(32, 8, 1)), squared_step),
}


@pytest.mark.parametrize("name", LOOPS)
def test_padding_in_loss_of_own_loop_is_reported_at_its_line(name: str) -> None:
    program, step_loss, fix = LOOPS[name]
    (finding,) = [f for f in loop_debugger(*program(), step_loss).findings if f.code == "L215"]
    assert fix in finding.fix
    assert (finding.where.source or "").strip().startswith("return ")


@pytest.mark.parametrize("name", HEALTHY_LOOPS)
def test_padding_in_loss_of_own_loop_without_padding_is_quiet(name: str) -> None:
    program, step_loss = HEALTHY_LOOPS[name]
    assert [f for f in loop_debugger(*program(), step_loss).findings if f.code == "L215"] == []


def test_padding_in_loss_of_own_loop_calls_each_hook_of_the_user_once() -> None:
    calls: list[float] = []

    def step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        errors = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="none")
        errors.register_hook(lambda gradient: calls.append(float(gradient.sum())))
        return errors.mean()

    debugger = loop_debugger(*tagger(), step)
    assert len(calls) == len(debugger.setup.train_loader)  # type: ignore[arg-type]


def padded_batch(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    words = pad_sequence([words for words, _ in samples], batch_first=True)
    tags = pad_sequence([tags for _, tags in samples], batch_first=True)
    return words, tags


def test_padding_in_loss_with_a_real_class_is_placed_where_targets_are_padded() -> None:
    model, tokens, tags = tagger()
    samples = [(row[: 2 + k % 5], tag[: 2 + k % 5]) for k, (row, tag) in enumerate(zip(tokens, tags, strict=True))]
    loader: DataLoader[Any] = DataLoader(samples, batch_size=16, collate_fn=padded_batch)  # type: ignore[arg-type]
    (finding,) = rule_findings(Setup(model, loader, loss_fn=token_cross_entropy), "L215")
    assert (
        finding.where.source or ""
    ).strip() == "tags = pad_sequence([tags for _, tags in samples], batch_first=True)"
