"""Tests of the rows of a watched loop with two optimizers, of which the first one never steps, or steps late."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug import Debugger
from nbdebug.records import Record

EPOCHS, BATCHES = 4, 15
StepBoth = Callable[[torch.optim.Optimizer, torch.optim.Optimizer, int], None]


def watch_two(step: StepBoth, *, is_first_frozen: bool = False) -> tuple[Record, list[float]]:
    """Watch a loop over an encoder and a decoder; return its record and the losses as the loop saw them."""
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(BATCHES * 20, 16)), 20, shuffle=True)
    encoder, decoder, mse, losses = nn.Linear(16, 4), nn.Linear(4, 16), nn.MSELoss(), list[float]()
    encoder.requires_grad_(not is_first_frozen)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.05) for part in (encoder, decoder)]
    debugger = Debugger(
        nn.Sequential(encoder, decoder), loader, loss_fn=mse, optimizer=optimizers, unpack=lambda batch: batch * 2
    )
    with debugger.watch() as run:
        for _ in range(EPOCHS):
            for number, (x,) in enumerate(loader):
                loss = mse(decoder(encoder(x)), x)
                losses.append(loss.item())
                for optimizer in optimizers:
                    optimizer.zero_grad()
                loss.backward()
                step(optimizers[0], optimizers[1], number)
    return run.record, losses


@pytest.mark.parametrize("is_first_frozen", [False, True])
def test_steps_of_second_optimizer_count_if_first_never_steps(is_first_frozen: bool) -> None:
    record, losses = watch_two(lambda first, second, number: second.step(), is_first_frozen=is_first_frozen)
    steps, values = record.series("loss")
    assert steps.tolist() == [*range(1, EPOCHS * BATCHES + 1)]
    np.testing.assert_allclose(values, losses, rtol=1e-6)
    rates = record.series("lr")[1]
    assert len(rates) == len(losses)
    np.testing.assert_allclose(rates, 0.05, rtol=1e-6)
    assert len(record.series("update.norm", "1.weight")[0]) >= 2


@pytest.mark.parametrize("is_first_earlier", [False, True])
def test_steps_of_first_optimizer_count_if_both_step(is_first_earlier: bool) -> None:
    def step(first: torch.optim.Optimizer, second: torch.optim.Optimizer, number: int) -> None:
        for optimizer in (first, second) if is_first_earlier else (second, first):
            optimizer.step()

    record, losses = watch_two(step)
    np.testing.assert_allclose(record.series("loss")[1], losses, rtol=1e-6)


def test_first_optimizer_that_steps_twice_an_epoch_of_a_frozen_part_still_counts() -> None:
    def step(first: torch.optim.Optimizer, second: torch.optim.Optimizer, number: int) -> None:
        second.step()
        if number % 5 == 4:
            first.step()

    record, losses = watch_two(step, is_first_frozen=True)
    means = np.reshape(losses, (-1, 5)).mean(1)
    np.testing.assert_allclose(record.series("loss")[1], means, rtol=1e-6)
