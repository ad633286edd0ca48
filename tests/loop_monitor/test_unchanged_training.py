"""Tests that watched training ends with bit-identical weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    ModeDependentNetwork,
    TrainFunction,
    batch_loss,
    batches,
    event_findings,
    train_plainly,
)

X, Y = points()


def trained_weights(is_watched: bool, train: TrainFunction, build: Callable[[], nn.Module]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    setup = minimal_setup(build(), X, Y, nn.CrossEntropyLoss())
    with Debugger.of(setup).watch() if is_watched else nullcontext():
        train(setup)
    return list(setup.model.state_dict().values())


def combined_loop(setup: Setup) -> None:
    """Accumulation, clipping, a GradScaler, a schedule, dropout and averaged weights."""
    optimizer, scaler = setup.optimizers[0], torch.amp.GradScaler("cpu")
    average = copy.deepcopy(setup.model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    torch.manual_seed(1)
    for number, (x, y) in enumerate(batches(setup, 6)):
        scaler.scale(batch_loss(setup, x, y) / 2).backward()
        if number % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            schedule.step()
            with torch.no_grad():
                for averaged, current in zip(average.parameters(), setup.model.parameters(), strict=True):
                    averaged.lerp_(current, 0.1)


def test_watched_loop_with_many_features_is_bit_identical_and_finds_nothing() -> None:
    unwatched, watched_weights = (
        trained_weights(is_watched, combined_loop, ModeDependentNetwork) for is_watched in (False, True)
    )
    assert all(torch.equal(a, b) for a, b in zip(unwatched, watched_weights, strict=True))
    assert not event_findings(combined_loop, minimal_setup(ModeDependentNetwork(), X, Y, nn.CrossEntropyLoss()))


def test_watched_data_parallel_on_cpu_is_bit_identical() -> None:
    unwatched, watched_weights = (
        trained_weights(is_watched, train_plainly, lambda: nn.DataParallel(ModeDependentNetwork()))
        for is_watched in (False, True)
    )
    assert all(torch.equal(a, b) for a, b in zip(unwatched, watched_weights, strict=True))
