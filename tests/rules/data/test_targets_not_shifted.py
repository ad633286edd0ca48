"""Tests of D126: language model targets with a wrong shift, and targets that may equal the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.data.targets_not_shifted import RecurrentLanguageModel, token_cross_entropy
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import AttentionLanguageModel
from nbdebug.setup import Setup
from nbdebug.source.edits import line_changes
from tests.rules.rule_findings import checkup_findings

TOKENS = torch.randint(1, 11, (64, 10), generator=torch.Generator().manual_seed(1))
SERIES = torch.randn(64, 10, 4, generator=torch.Generator().manual_seed(2))


class LossFromLabels(nn.Module):
    """Computes the loss from shifted ``labels``."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = RecurrentLanguageModel()

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.inner(input_ids)
        return {"logits": logits, "loss": shifted_cross_entropy(logits, labels)}


class LossFromLabel(LossFromLabels):
    """Computes the loss from shifted ``label``."""

    def forward(self, input_ids: Tensor, label: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return super().forward(input_ids, label)


class Decoder(nn.Module):
    """A language model that shifts its input by a start token."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = RecurrentLanguageModel()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1))


class Forecaster(nn.Module):
    """A causal model of real values."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.GRU(4, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)[0]


def backward_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return token_cross_entropy(logits[:, 1:], labels[:, :-1])


def shifted_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return token_cross_entropy(logits[:, :-1], labels[:, 1:])


def language_model_builder(
    x: Tensor, y: Tensor, loss_fn: Any = token_cross_entropy, model: nn.Module | None = None
) -> Callable[[], Setup]:
    return lambda: minimal_setup(model or RecurrentLanguageModel(), x, y, loss_fn)


def dict_builder(x: Tensor, labels: Tensor, name: str = "labels") -> Callable[[], Setup]:
    batches = [{"input_ids": x[i : i + 16], name: labels[i : i + 16]} for i in range(0, 64, 16)]
    return lambda: Setup(LossFromLabels() if name == "labels" else LossFromLabel(), batches)


def padded_tokens() -> Tensor:
    tokens = TOKENS.clone()
    tokens[:, 7:] = -100
    return tokens


FAULTY: dict[str, tuple[Callable[[], Setup], int, int]] = {
    "not shifted": (language_model_builder(TOKENS, TOKENS.clone()), 0, 0),
    "not shifted, masked attention": (
        language_model_builder(TOKENS, TOKENS.clone(), model=AttentionLanguageModel(True)),
        0,
        0,
    ),
    "outputs shifted in the loss": (language_model_builder(TOKENS, TOKENS.clone(), backward_cross_entropy), 0, -1),
    "in data and in loss": (language_model_builder(TOKENS[:, :-1], TOKENS[:, 1:], shifted_cross_entropy), 1, 1),
    "in data and in the model": (dict_builder(TOKENS[:, :-1], TOKENS[:, 1:]), 1, 1),
    "in data and in the model, as label=": (dict_builder(TOKENS[:, :-1], TOKENS[:, 1:], "label"), 1, 1),
    "twice in the data": (language_model_builder(TOKENS[:, :-2], TOKENS[:, 2:]), 2, 0),
    "padded": (language_model_builder(TOKENS, padded_tokens()), 0, 0),
}


@pytest.mark.parametrize("name", FAULTY)
def test_targets_not_shifted_by_one_step_is_an_error_with_both_shifts(name: str) -> None:
    build, in_data, in_loss = FAULTY[name]
    (finding,) = checkup_findings(build(), "D126")
    assert (finding.severity, finding.evidence["in_data"], finding.evidence["in_loss"]) == ("error", in_data, in_loss)


def batch_with_alias(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    tokens = torch.stack(rows)
    following = tokens
    following[:, :-1] = tokens[:, 1:].clone()
    return tokens[:, :-1], following[:, :-1]


class Rows(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return len(TOKENS)


class WholeRows(Rows):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = TOKENS[index]
        return row, row


class CutRows(Rows):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = TOKENS[index]
        return row[:-1], row[:-1]


@pytest.mark.parametrize("dataset", [WholeRows(), CutRows()])
def test_samples_that_are_their_own_targets_are_shifted_at_their_line(dataset: Rows) -> None:
    setup = Setup(RecurrentLanguageModel(), DataLoader(dataset, 16), loss_fn=token_cross_entropy)
    (finding,) = checkup_findings(setup, "D126")
    (change,) = line_changes(finding.edits)
    assert [line.strip() for line in change.added] == ["return row[:-1], row[1:]"]


def test_targets_that_are_another_name_of_the_inputs_are_placed_at_that_name() -> None:
    loader: DataLoader[Any] = DataLoader([*TOKENS], batch_size=16, collate_fn=batch_with_alias)  # type: ignore[arg-type]
    (finding,) = checkup_findings(Setup(RecurrentLanguageModel(), loader, loss_fn=token_cross_entropy), "D126")
    assert (finding.where.source or "").strip() == "following = tokens"


HEALTHY: dict[str, Callable[[], Setup]] = {
    "shifted by the model": language_model_builder(TOKENS, TOKENS, model=Decoder()),
    "shifted in the data": language_model_builder(TOKENS[:, :-1], TOKENS[:, 1:]),
    "shifted in the loss": language_model_builder(TOKENS, TOKENS.clone(), shifted_cross_entropy),
    "shifted in the model": dict_builder(TOKENS, TOKENS.clone()),
    "shifted in the model, as label=": dict_builder(TOKENS, TOKENS.clone(), "label"),
    "autoencoder": language_model_builder(TOKENS, TOKENS.clone(), model=AttentionLanguageModel(False)),
    "tags": language_model_builder(TOKENS, (TOKENS * 3) % 11),
    "two steps of a forecast": language_model_builder(SERIES[:, :-2], SERIES[:, 2:], nn.MSELoss(), Forecaster()),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_targets_not_shifted_with_correct_targets_is_quiet(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "D126") == []


class Transcriber(nn.Module):
    """A decoder that hears earlier letters, beside an input of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.start = RecurrentLanguageModel(), nn.Linear(10, 11)

    def forward(self, numbers: Tensor, heard: Tensor) -> Tensor:
        return self.inner(heard) + self.start(numbers)[:, None]


def delay(tokens: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], dim=1)


NUMBERS = torch.randn(64, 10, generator=torch.Generator().manual_seed(3))
Step = Callable[[Any, tuple[Tensor, ...]], Tensor]


@pytest.mark.parametrize(
    ("model", "data", "step", "is_reported"),
    [
        (Transcriber(), (NUMBERS, TOKENS), lambda m, b: token_cross_entropy(m(b[0], delay(b[1])), b[1]), False),
        (Transcriber(), (NUMBERS, TOKENS), lambda m, b: token_cross_entropy(m(b[0], b[1]), b[1]), True),
        (
            RecurrentLanguageModel(),
            (TOKENS, TOKENS),
            lambda m, b: token_cross_entropy(m(b[0][:, :-1]), b[1][:, 1:]),
            False,
        ),
        (RecurrentLanguageModel(), (TOKENS, TOKENS), lambda m, b: token_cross_entropy(m(b[0]), b[1]), True),
    ],
    ids=["delayed decoder", "decoder", "shift in the loop", "no shift"],
)
def test_targets_not_shifted_is_withdrawn_only_if_the_loop_shifts(
    model: nn.Module, data: tuple[Tensor, ...], step: Step, is_reported: bool
) -> None:
    loader = DataLoader(TensorDataset(*data), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=token_cross_entropy, optimizer=optimizer)
    debugger.checkup(select="D126")
    assert [finding.code for finding in debugger.findings] == ["D126"]
    with debugger.watch():
        for batch in loader:
            optimizer.zero_grad()
            step(model, batch).backward()
            optimizer.step()
    assert ("D126" in {finding.code for finding in debugger.findings}) == is_reported


class CausalWindow(nn.Module):
    """A causal convolution over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(11, 8), nn.Conv1d(8, 8, 3), nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x = nn.functional.pad(self.embed(tokens).transpose(1, 2), (2, 0))
        return self.head(self.body(x).transpose(1, 2))


def moved_back(tokens: Tensor) -> Tensor:
    return torch.cat([tokens[:, 1:], tokens[:, :1]], 1)


def with_last(tokens: Tensor, last: Tensor) -> Tensor:
    return torch.cat([tokens[:, :-1], last], 1)


LONG = torch.randint(1, 11, (64, 13), generator=torch.Generator().manual_seed(4))
# By name: the model, the step of the loop on an input and its next tokens, and whether the input has the target.
LOOPS: dict[str, tuple[Callable[[], nn.Module], Step, bool]] = {
    "rolled": (RecurrentLanguageModel, lambda m, b: token_cross_entropy(m(b[0].roll(-1, 1)), b[1]), True),
    "rolled along the last axis": (CausalWindow, lambda m, b: token_cross_entropy(m(b[0].roll(-1, -1)), b[1]), True),
    "moved back": (
        lambda: AttentionLanguageModel(True),
        lambda m, b: token_cross_entropy(m(moved_back(b[0])), b[1]),
        True,
    ),
    "the target itself": (RecurrentLanguageModel, lambda m, b: token_cross_entropy(m(b[1]), b[1]), True),
    "target with the first token at its end": (
        CausalWindow,
        lambda m, b: token_cross_entropy(m(with_last(b[1], b[0][:, :1])), b[1]),
        True,
    ),
    "as loaded": (RecurrentLanguageModel, lambda m, b: token_cross_entropy(m(b[0]), b[1]), False),
    "target rolled forward": (CausalWindow, lambda m, b: token_cross_entropy(m(b[1].roll(1, 1)), b[1]), False),
    "reversed": (RecurrentLanguageModel, lambda m, b: token_cross_entropy(m(b[1].flip(1)), b[0].flip(1)), False),
    "pairs reversed": (RecurrentLanguageModel, lambda m, b: token_cross_entropy(m(b[0].flip(1)), b[1].flip(1)), True),
    "token left out": (
        CausalWindow,
        lambda m, b: token_cross_entropy(m(b[0].masked_fill(torch.arange(12) == 5, 0)), b[1]),
        False,
    ),
    "last token hidden": (
        RecurrentLanguageModel,
        lambda m, b: token_cross_entropy(m(with_last(b[0], torch.zeros_like(b[0][:, :1]))), b[0]),
        False,
    ),
    "other tokens": (
        lambda: AttentionLanguageModel(True),
        lambda m, b: token_cross_entropy(m(torch.randint_like(b[0], 1, 11)), b[1]),
        False,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_targets_not_shifted_in_loops_that_move_the_tokens_of_a_right_loader(name: str) -> None:
    build, step, is_reported = LOOPS[name]
    torch.manual_seed(0)
    model, loader = build(), DataLoader(TensorDataset(LONG[:, :-1], LONG[:, 1:]), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=token_cross_entropy, optimizer=optimizer)
    assert not list(debugger.checkup(select="D126"))
    with debugger.watch():
        for batch in loader:
            optimizer.zero_grad()
            step(model, batch).backward()
            optimizer.step()
    findings = [finding for finding in debugger.findings if finding.code == "D126"]
    assert bool(findings) == is_reported
    assert all((finding.where.source or "").strip() for finding in findings)
