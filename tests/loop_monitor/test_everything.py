"""A loop with everything at once, watched and alone."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import Thinned, Train, batches, loss_of, watched
from tests.loop_monitor.test_traps import plain

X, Y = points()


def weights(watching: bool, train: Train, build: Callable[[], nn.Module]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    setup = minimal_setup(build(), X, Y, nn.CrossEntropyLoss())
    if watching:
        with Debugger.of(setup).watch():
            train(setup)
    else:
        train(setup)
    return list(setup.model.state_dict().values())


def averaged(setup: Setup) -> None:
    """Accumulation, clipping, a scaler, a schedule, dropout and an average of the weights at once."""
    optimizer, scaler = setup.optimizers[0], torch.amp.GradScaler("cpu")
    average = copy.deepcopy(setup.model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    torch.manual_seed(1)
    for number, (x, y) in enumerate(batches(setup, 6)):
        scaler.scale(loss_of(setup, x, y) / 2).backward()
        if number % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            schedule.step()
            with torch.no_grad():
                for kept, now in zip(average.parameters(), setup.model.parameters(), strict=True):
                    kept.lerp_(now, 0.1)


def test_a_loop_with_everything_ends_bit_for_bit_where_it_does_alone_and_is_quiet() -> None:
    alone, beside = (weights(watching, averaged, Thinned) for watching in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(alone, beside, strict=True))
    assert not watched(averaged, minimal_setup(Thinned(), X, Y, nn.CrossEntropyLoss()))


def test_data_parallel_on_the_processor() -> None:
    alone, beside = (weights(watching, plain, lambda: nn.DataParallel(Thinned())) for watching in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(alone, beside, strict=True))
