"""O507: the scheduler moves the rate of another optimizer, or at the wrong rhythm."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup


@rule("O507", "warning")
def schedule_misused(
    setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...], loop: Loop | NotChecked, *, most: float = 0.5
) -> Iterator[Finding]:
    """The scheduler moves the rate of another optimizer, or far too often, or never.

    ## What it does
    Compares, by identity, the optimizer that the scheduler was made for with those that were given. In a loop that is
    watched it counts the steps of the scheduler, and follows the rate.

    ## Why it matters
    The rate of the optimizer that steps stays as it is: no warm-up, no decay, and no error. Or it decays within the
    first epoch by what was meant for a hundred, and training stands still.

    ## How it is measured
    Exactly. A schedule runs too fast when it steps with every batch and more than ``most`` = half of all steps ran at
    under a hundredth of the highest rate; a cosine over all steps ends there too, but spends 6 % of its steps there.
    It was forgotten when it never stepped in more than two epochs.

    ## How to fix
    Make the scheduler after the optimizer, of the same cell, and again whenever that is made again. Step it once an
    epoch, or plan its lengths in steps.

    ## When to ignore
    When another part that is not shown here is trained with that optimizer.

    ## References
    Documentation of torch.optim: how to adjust learning rate.
    """
    if isinstance(loop, Loop) and setup.scheduler is not None:
        yield from rhythm(setup, loop, most)
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


def rhythm(setup: Setup, loop: Loop, most: float) -> Iterator[Finding]:
    """A schedule that runs by the batch and leaves most of them no rate, or that never runs."""
    kind, line = type(setup.scheduler).__name__, loop.lines.get("schedule")
    evidence = {"steps": loop.steps, "scheduler steps": loop.scheduled, "share under 1 % of the peak": loop.slow}
    if loop.scheduled >= 0.9 * loop.steps > 0 and loop.slow > most:
        yield Finding(
            message=f"{kind} stepped {loop.scheduled} times in {loop.steps} steps: {loop.slow:.0%} of them ran at "
            f"under 1 % of the highest rate, expected under {most:.0%}.",
            where=where_of(line),
            cause="It is stepped with every batch, and its numbers are meant for epochs.",
            fix="scheduler.step()   # once an epoch, outside the loop over batches",
            evidence=evidence,
            explains=("O502", "G409", "G414", "T601", "T606", "T607", "T610"),
        )
    elif not loop.scheduled and loop.steps > 2 * epoch(setup) > 0:
        yield Finding(
            message=f"{kind} never stepped in {loop.steps} steps, which are {loop.steps / epoch(setup):.1f} epochs.",
            cause="The loop never calls its step().",
            fix="scheduler.step()   # once an epoch",
            evidence=evidence,
            explains=("T604", "T606"),
        )


def epoch(setup: Setup) -> int:
    """How many batches an epoch has; 0 where the loader does not say."""
    return len(setup.train_loader) if isinstance(setup.train_loader, Sized) else 0


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
