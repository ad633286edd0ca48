"""O507: the scheduler moves the rate of another optimizer."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.errors import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup


@rule("O507", "warning")
def schedule_misused(setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...]) -> Iterator[Finding]:
    """The scheduler moves the rate of another optimizer than the one that trains.

    ## What it does
    Compares, by identity, the optimizer that the scheduler was made for with those that were given.

    ## Why it matters
    The rate of the optimizer that steps stays as it is: no warm-up, no decay, and no error.

    ## How it is measured
    Exactly, by identity.

    ## How to fix
    Make the scheduler after the optimizer, of the same cell, and again whenever that is made again.

    ## When to ignore
    When another part that is not shown here is trained with that optimizer.

    ## References
    Documentation of torch.optim: how to adjust learning rate.
    """
    planned = getattr(setup.scheduler, "optimizer", None)
    if not isinstance(planned, torch.optim.Optimizer):
        raise NotChecked("no scheduler was given that names its optimizer")
    if any(planned is one for one in optimizers):
        return
    kind = type(setup.scheduler).__name__
    yield Finding(
        message=f"{kind} moves the rate of an optimizer that is none of the {len(optimizers)} given.",
        cause="The optimizer was made again after the scheduler.",
        fix=f"scheduler = torch.optim.lr_scheduler.{kind}(optimizer, ...)   # after optimizer = ...",
        evidence={"scheduler": kind, "optimizer": type(planned).__name__},
        explains=("T606", "T604"),
    )


def planned(again: bool) -> Setup:
    """A schedule for the optimizer, which may be made again afterwards."""
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    trained = torch.optim.SGD(model.parameters(), lr=0.1) if again else optimizer
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(trained,), scheduler=scheduler)


def bad() -> Setup:
    """An optimizer that was made again."""
    return planned(again=True)


def good() -> Setup:
    """The same optimizer in both."""
    return planned(again=False)
