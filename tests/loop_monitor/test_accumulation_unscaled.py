"""O511: accumulated losses that nothing divides."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import Train, batches, loss_of, noted, source, watched


def descent(kind: Any = torch.optim.SGD, **given: Any) -> Setup:
    model = network(3)
    loss_fn = given.pop("loss_fn", nn.CrossEntropyLoss())
    return minimal_setup(model, *points(), loss_fn, optimizers=(kind(model.parameters(), lr=0.05),))


def accumulating(parts: int, divisor: float = 1.0, scaler: Any = None) -> Train:
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


def said(train: Train, setup: Setup) -> list[Any]:
    return [one for one in watched(train, setup) if one.code == "O511"]


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("scaled", [False, True])
def test_losses_that_nothing_divides(parts: int, scaled: bool) -> None:
    scaler = torch.amp.GradScaler("cpu") if scaled else None
    (found,) = said(accumulating(parts, scaler=scaler), descent())
    assert f"gradients of {parts} batches" in found.message
    assert found.fix == f"(loss / {parts}).backward()"
    assert source(found) == "(scaler.scale(loss) if scaler else loss).backward()"
    scaler = torch.amp.GradScaler("cpu") if scaled else None
    assert not said(accumulating(parts, divisor=parts, scaler=scaler), descent())


def test_adam_does_not_mind_until_the_norm_is_clipped() -> None:
    (found,) = (one for one in noted(accumulating(2), descent(torch.optim.Adam)) if one.code == "O511")
    assert found.severity == "note"

    def clipped(setup: Setup) -> None:
        for number, (x, y) in enumerate(batches(setup, 6)):
            loss_of(setup, x, y).backward()
            if number % 2:
                nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()

    assert [one.code for one in watched(clipped, descent(torch.optim.Adam))] == ["O511"]


def two_losses(setup: Setup) -> None:
    """Real and generated, as in the tutorial of adversarial networks."""
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        loss_of(setup, x, y).backward()
        loss_of(setup, x + 1, y).backward()
        setup.optimizers[0].step()


def chunks(setup: Setup) -> None:
    """One batch in several pieces, as in truncated backpropagation through time."""
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        for part in (slice(0, 8), slice(8, 16)):
            loss_of(setup, x[part], y[part]).backward()
        setup.optimizers[0].step()


def sums_of_samples(setup: Setup) -> None:
    for number, (x, y) in enumerate(batches(setup, 6)):
        (F.cross_entropy(setup.model(x), y, reduction="sum") / 64).backward()
        if number % 4 == 3:
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()


def weighted_sums(setup: Setup) -> None:
    for number, (x, y) in enumerate(batches(setup, 6)):
        output = setup.model(x)
        loss = 0.5 * F.cross_entropy(output, y) + 0.5 * output.square().mean()
        loss.backward()
        if number % 2:
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()


def tasks(setup: Setup) -> None:
    """Batches of several loaders, one for each task, whose losses are summed up on purpose."""
    others = [DataLoader(setup.train_loader.dataset, batch_size=8, shuffle=True) for _ in range(2)]
    for several in zip(*others, strict=True):
        setup.optimizers[0].zero_grad()
        for x, y in several:
            loss_of(setup, x, y).backward()
        setup.optimizers[0].step()


@pytest.mark.parametrize("train", [two_losses, tasks, chunks, sums_of_samples, weighted_sums, accumulating(1)])
def test_other_sums_are_quiet(train: Train) -> None:
    assert not said(train, descent())


def test_a_sum_over_samples_is_quiet() -> None:
    assert not said(accumulating(2), descent(loss_fn=nn.CrossEntropyLoss(reduction="sum")))
