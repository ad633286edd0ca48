"""O507 tells schedules that run too fast, too seldom or the wrong way from such as do what they are made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup

EPOCHS, BATCHES = 8, 4
Made = Callable[[torch.optim.Optimizer], Any]


def said(made: Made, *, batch: bool = False, told: Callable[[int], float] | None = None) -> list[str]:
    """The causes of what is said of a schedule that is stepped with each batch or epoch, or told a value."""
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = made(optimizer)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,), scheduler=scheduler)
    debugger = Debugger.of(Setup(**{**vars(setup), "val_loader": setup.train_loader}))
    with debugger.watch():
        for epoch in range(EPOCHS):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                if batch:
                    scheduler.step()
            if told:
                val_acc = told(epoch)
                scheduler.step(val_acc)
            elif not batch:
                scheduler.step()
    return [one.cause for one in debugger.findings if one.code == "O507"]


def one_cycle(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=EPOCHS, steps_per_epoch=BATCHES)


def plateau(mode: Any) -> Made:
    return lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, patience=1)


@pytest.mark.parametrize(
    ("made", "given", "cause"),
    [
        (one_cycle, {}, "length counts batches"),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.1), {}, "reduces the rate too much"),
        (lambda o: lr_scheduler.StepLR(o, 3), {"batch": True}, "with every batch"),
        (plateau("min"), {"told": lambda epoch: (8 + 4 * epoch) / 64}, "a score"),
    ],
)
def test_a_schedule_that_spoils_the_run_is_told_of(made: Made, given: dict[str, Any], cause: str) -> None:
    (found,) = said(made, **given)
    assert cause in found


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (one_cycle, {"batch": True}),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS), {}),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 10 * EPOCHS), {}),
        (lambda o: lr_scheduler.MultiStepLR(o, [3, 6]), {}),
        (plateau("max"), {"told": lambda epoch: (8 + 4 * epoch) / 64}),
        (plateau("min"), {"told": lambda epoch: 1 - epoch / 10}),
    ],
)
def test_a_schedule_that_does_what_it_is_made_for_is_left_alone(made: Made, given: dict[str, Any]) -> None:
    assert said(made, **given) == []
