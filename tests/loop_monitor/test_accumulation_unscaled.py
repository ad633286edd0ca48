"""Tests of O511: losses that are accumulated without division."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    TrainFunction,
    all_findings,
    batch_loss,
    batches,
    codes,
    event_findings,
    load_loop,
    source_line,
)


def descent(optimizer: Any = torch.optim.SGD, loss_fn: Any = None) -> Setup:
    model = network(3)
    optimizers = (optimizer(model.parameters(), lr=0.05),)
    return minimal_setup(model, *points(), loss_fn or nn.CrossEntropyLoss(), optimizers=optimizers)


def accumulating(parts: int, divisor: float = 1.0, scaler: Any = None) -> TrainFunction:
    def train(setup: Setup) -> None:
        setup.optimizers[0].zero_grad()
        for number, (x, y) in enumerate(batches(setup, 3 * parts), start=1):
            loss = setup.loss_fn(setup.model(x), y)
            loss = loss / divisor if divisor != 1 else loss
            (scaler.scale(loss) if scaler else loss).backward()
            if number % parts == 0:
                scaler.step(setup.optimizers[0]) if scaler else setup.optimizers[0].step()
                scaler.update() if scaler else None
                setup.optimizers[0].zero_grad()

    return train


def o511_findings(train: TrainFunction, setup: Setup) -> list[Finding]:
    return [finding for finding in event_findings(train, setup) if finding.code == "O511"]


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("scaled", [False, True])
def test_accumulation_unscaled_on_undivided_losses_fires_with_the_divisor(parts: int, scaled: bool) -> None:
    scaler = torch.amp.GradScaler("cpu") if scaled else None
    (finding,) = o511_findings(accumulating(parts, scaler=scaler), descent())
    assert f"gradients of {parts} batches" in finding.message
    assert f"(loss / {parts}).backward()" in finding.fix
    assert source_line(finding) == "(scaler.scale(loss) if scaler else loss).backward()"
    scaler = torch.amp.GradScaler("cpu") if scaled else None
    assert not o511_findings(accumulating(parts, divisor=parts, scaler=scaler), descent())


def test_accumulation_unscaled_with_adam_is_a_note_unless_gradients_are_clipped() -> None:
    findings = all_findings(accumulating(2), descent(torch.optim.Adam))
    (finding,) = (finding for finding in findings if finding.code == "O511")
    assert finding.severity == "note"

    def train_with_clipping(setup: Setup) -> None:
        for number, (x, y) in enumerate(batches(setup, 6)):
            batch_loss(setup, x, y).backward()
            if number % 2:
                nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()

    assert codes(event_findings(train_with_clipping, descent(torch.optim.Adam))) == ["O511"]


class MeanLoss(nn.Module):
    """A loss that divides the sum by the number of rows itself."""

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(output, y, reduction="sum") / len(y)


def penalty(setup: Setup) -> Tensor:
    return 1e-4 * sum(p.square().sum() for p in setup.model.parameters())  # type: ignore[return-value]


def row_losses(output: Tensor, y: Tensor) -> list[Tensor]:
    return [F.cross_entropy(output[i : i + 1], y[i : i + 1]) for i in range(len(y))]


def masked_mean(output: Tensor, y: Tensor) -> Tensor:
    mask = (torch.arange(len(y)) % 3 > 0).float()
    return (F.cross_entropy(output, y, reduction="none") * mask).sum() / mask.sum()


# How a loop may compute one mean loss of a batch.
WRITINGS: dict[str, Callable[[Setup, Tensor, Tensor], Tensor]] = {
    "plain": lambda setup, output, y: setup.loss_fn(output, y),  # type: ignore[misc]
    "times one": lambda setup, output, y: F.cross_entropy(output, y) * 1.0,
    "over one": lambda setup, output, y: F.cross_entropy(output, y) / torch.tensor(1.0),
    "sum over length": lambda setup, output, y: F.cross_entropy(output, y, reduction="none").sum() / len(y),
    "python sum": lambda setup, output, y: sum(F.cross_entropy(output, y, reduction="none")) / len(y),
    "stacked rows": lambda setup, output, y: torch.stack(row_losses(output, y)).mean(),
    "penalty": lambda setup, output, y: F.cross_entropy(output, y) + penalty(setup),
    "masked mean": lambda setup, output, y: masked_mean(output, y),
    "own module": lambda setup, output, y: MeanLoss()(output, y),
    "squared error": lambda setup, output, y: F.mse_loss(output, F.one_hot(y, 3).float()) * 1,
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_accumulation_unscaled_is_decided_by_the_weight_of_the_loss(writing: str) -> None:
    def accumulate(divide: Callable[[Tensor], Tensor]) -> list[Finding]:
        def train(setup: Setup) -> None:
            for number, (x, y) in enumerate(batches(setup, 9), start=1):
                divide(WRITINGS[writing](setup, setup.model(x), y)).backward()
                if number % 3 == 0:
                    setup.optimizers[0].step()
                    setup.optimizers[0].zero_grad()

        return o511_findings(train, descent())

    (finding,) = accumulate(lambda loss: loss)
    assert "(loss / 3).backward()" in finding.fix
    for divide in (lambda loss: loss / 3, lambda loss: loss * torch.tensor(1 / 3), lambda loss: loss.div_(3)):
        assert not accumulate(divide)


def adversarial_losses(setup: Setup) -> None:
    """Losses on real and generated samples, as in adversarial training."""
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        batch_loss(setup, x, y).backward()
        batch_loss(setup, x + 1, y).backward()
        setup.optimizers[0].step()


def micro_batches(
    rows: int,
    divide: Callable[[Tensor, int], Tensor] = lambda loss, parts: loss,
    divides_gradients: bool = False,
    change: Callable[[Tensor], Tensor] = lambda part: part,
) -> TrainFunction:
    """One batch in several parts of some rows."""

    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            starts = range(0, len(x), rows)
            for start in starts:
                loss = F.cross_entropy(setup.model(change(x[start : start + rows])), y[start : start + rows])
                divide(loss, len(starts)).backward()
            for p in setup.model.parameters() if divides_gradients else ():
                p.grad.div_(len(starts))  # type: ignore[union-attr]
            setup.optimizers[0].step()

    return train


def repeated_rows(setup: Setup) -> None:
    """The same rows of a batch with different noise, and the batch in two views."""
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        for scale in (0.1, 0.2):
            batch_loss(setup, x + scale * torch.randn_like(x), y).backward()
        setup.optimizers[0].step()


def the_same_rows_twice(setup: Setup) -> None:
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        for labels in (y, y.roll(1)):
            batch_loss(setup, x[:8], labels[:8]).backward()
        setup.optimizers[0].step()


def cached_gradients(setup: Setup) -> None:
    """Gradients of a loss of the whole batch, carried through the model in parts."""
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        with torch.no_grad():
            output = setup.model(x)
        output.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(output, y), output)
        for part in (slice(0, 8), slice(8, 16)):
            torch.dot(setup.model(x[part]).flatten(), gradient[part].flatten()).backward()
        setup.optimizers[0].step()


@pytest.mark.parametrize(("rows", "parts"), [(8, 2), (2, 8), (1, 16)])
def test_undivided_losses_of_the_parts_of_a_batch_are_reported(rows: int, parts: int) -> None:
    (finding,) = o511_findings(micro_batches(rows), descent())
    assert f"the gradients of {parts} parts of a batch" in finding.message
    assert f"{parts} times the gradient of the whole batch" in finding.message
    assert source_line(finding) == "divide(loss, len(starts)).backward()"


def normalized(part: Tensor) -> Tensor:
    return (part - torch.tensor([0.1, 0.2, 0.3, 0.4])) / torch.tensor([0.5, 1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    "change", [lambda part: part / 255, normalized, lambda part: part.flip(0).double().float() / 3]
)
@pytest.mark.parametrize(("rows", "parts"), [(8, 2), (1, 16)])
def test_parts_of_a_batch_that_the_loop_rescales_are_reported(
    change: Callable[[Tensor], Tensor], rows: int, parts: int
) -> None:
    (finding,) = o511_findings(micro_batches(rows, change=change), descent())
    assert f"the gradients of {parts} parts of a batch" in finding.message


def steps_of_rescaled_parts(setup: Setup) -> None:
    """A step after each part."""
    for x, y in batches(setup):
        for part in (slice(0, 8), slice(8, 16)):
            setup.optimizers[0].zero_grad()
            batch_loss(setup, x[part] / 2, y[part]).backward()
            setup.optimizers[0].step()


@pytest.mark.parametrize(
    "train",
    [
        micro_batches(4, lambda loss, parts: loss / parts, change=normalized),
        micro_batches(4, change=lambda part: part + 0.1 * torch.randn_like(part)),
        micro_batches(4, change=lambda part: part.softmax(1)),
        steps_of_rescaled_parts,
        micro_batches(4, lambda loss, parts: loss / parts),
        micro_batches(4, divides_gradients=True),
        micro_batches(16),
        repeated_rows,
        the_same_rows_twice,
        cached_gradients,
    ],
    ids=[
        "rescaled",
        "with noise",
        "in another way",
        "steps",
        "divided",
        "gradients divided",
        "whole batch",
        "views",
        "same rows",
        "cached gradients",
    ],
)
def test_parts_of_a_batch_that_are_averaged_or_overlap_are_quiet(train: TrainFunction) -> None:
    assert not o511_findings(train, descent())


class StepsOfRecurrence(nn.Module):
    """The mean of a recurrent state over the steps of a window, and a read-out of three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.read = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, steps: Tensor) -> Tensor:
        scores: Tensor = self.read(self.cell(steps)[0].mean(1))
        return scores


def test_truncated_backpropagation_through_a_sequence_is_quiet() -> None:
    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            for window in x.split(4, dim=1):
                batch_loss(setup, window, y).backward()
            setup.optimizers[0].step()

    x, y = torch.randn(64, 12, 3), torch.randint(0, 3, (64,))
    model = StepsOfRecurrence()
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.05),)
    assert not o511_findings(train, minimal_setup(model, x, y, nn.CrossEntropyLoss(), optimizers=optimizers))


def sum_divided_by_accumulated_samples(setup: Setup) -> None:
    for number, (x, y) in enumerate(batches(setup, 6)):
        (F.cross_entropy(setup.model(x), y, reduction="sum") / 64).backward()
        if number % 4 == 3:
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()


def weighted_loss_terms(setup: Setup) -> None:
    for number, (x, y) in enumerate(batches(setup, 6)):
        output = setup.model(x)
        loss = 0.5 * F.cross_entropy(output, y) + 0.5 * output.square().mean()
        loss.backward()
        if number % 2:
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()


def multiple_tasks(setup: Setup) -> None:
    """Multi-task training: batches of several loaders, whose losses are to be summed."""
    task_loaders = [DataLoader(setup.train_loader.dataset, batch_size=8, shuffle=True) for _ in range(2)]
    for task_batches in zip(*task_loaders, strict=True):
        setup.optimizers[0].zero_grad()
        for x, y in task_batches:
            batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()


@pytest.mark.parametrize(
    "train",
    [
        adversarial_losses,
        multiple_tasks,
        sum_divided_by_accumulated_samples,
        weighted_loss_terms,
        accumulating(1),
    ],
)
def test_accumulation_unscaled_on_intended_sums_finds_nothing(train: TrainFunction) -> None:
    assert not o511_findings(train, descent())


def test_accumulation_unscaled_on_sum_reduction_finds_nothing() -> None:
    assert not o511_findings(accumulating(2), descent(loss_fn=nn.CrossEntropyLoss(reduction="sum")))


# The line with "here" makes the loss that is not divided.
UNDIVIDED = {
    "passed to a helper": (
        "def backward(loss):\n    loss.backward()\n    return loss.item()\n"
        "def part(setup, x, y):\n    return backward(setup.loss_fn(setup.model(x), y))  # here\n"
    ),
    "assigned and passed to a helper": (
        "def backward(loss):\n    loss.backward()\n"
        "def part(setup, x, y):\n    loss = setup.loss_fn(setup.model(x), y)  # here\n    backward(loss=loss)\n"
    ),
    "in the function of the backward pass": (
        "def part(setup, x, y):\n    loss = setup.loss_fn(setup.model(x), y)\n    loss.backward()  # here\n"
    ),
}


@pytest.mark.parametrize("name", UNDIVIDED)
def test_accumulation_unscaled_names_the_line_of_the_loss_outside_a_helper(name: str, tmp_path: Path) -> None:
    text = (
        "def batches(setup):\n    for _ in range(12):\n        yield from setup.train_loader\n"
        "def train(setup):\n    for number, (x, y) in enumerate(batches(setup), 1):\n"
        "        part(setup, x, y)\n        if number % 4 == 0:\n            setup.optimizers[0].step()\n"
        "            setup.optimizers[0].zero_grad()\n"
    )
    (finding,) = o511_findings(load_loop(tmp_path / "loop.py", UNDIVIDED[name] + text), descent())
    assert source_line(finding).endswith("# here")


def alternating(clear: Callable[[nn.Module, tuple[torch.optim.Optimizer, ...]], None]) -> TrainFunction:
    """Two optimizers in turns; all gradients are cleared before each backward pass."""

    def train(setup: Setup) -> None:
        first, second = setup.model[0], setup.model[2]  # type: ignore[index]
        optimizers = tuple(torch.optim.SGD(part.parameters(), lr=0.05) for part in (first, second))
        for _ in range(3):
            for number, (x, y) in enumerate(batches(setup, 8)):
                clear(setup.model, optimizers)
                batch_loss(setup, x, y).backward()
                optimizers[number % 2].step()

    return train


@pytest.mark.parametrize(
    "clear",
    [
        lambda model, optimizers: model.zero_grad(),
        lambda model, optimizers: model.zero_grad(set_to_none=False),
        lambda model, optimizers: [optimizer.zero_grad() for optimizer in optimizers],
    ],
)
def test_accumulation_unscaled_of_gradients_cleared_without_a_step_is_quiet(clear: Any) -> None:
    assert not o511_findings(alternating(clear), descent())


def test_accumulation_unscaled_of_a_model_cleared_every_second_pass_is_reported() -> None:
    def train(setup: Setup) -> None:
        optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.05)
        for number, (x, y) in enumerate(batches(setup, 24)):
            if number % 2 == 0:
                setup.model.zero_grad()
            batch_loss(setup, x, y).backward()
            if number % 2:
                optimizer.step()

    assert o511_findings(train, descent())
