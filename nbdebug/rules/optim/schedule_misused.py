"""O507: the scheduler moves the rate of another optimizer, or at the wrong rhythm."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.loop.schedules import planned_length, taken_for
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

CONSEQUENCES = ("O502", "G409", "G414", "T601", "T604", "T606", "T607", "T610")


@rule("O507", "warning")
def schedule_misused(
    setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...], loop: Loop | NotChecked, *, most: float = 0.5
) -> Iterator[Finding]:
    """The scheduler moves the rate of another optimizer, or far too often, or never.

    ## What it does
    Compares, by identity, the optimizer that the scheduler was made for with those that were given. In a loop that is
    watched it counts the steps of the scheduler, follows the rate, and what a schedule for plateaus is told.

    ## Why it matters
    The rate of the optimizer that steps stays as it is: no warm-up, no decay, and no error. Or it decays within the
    first epoch by what was meant for a hundred, and training stands still.

    ## How it is measured
    Exactly. A schedule runs too fast when more than ``most`` = half of all steps ran at under a hundredth of the
    highest rate; a cosine over all steps ends there too, but spends 6 % of its steps there. One that waits for plateaus
    may. It was forgotten when it never stepped in more than two epochs, and is stepped too seldom when it was planned
    for as many steps as there are batches, within 10 %, and made fewer than half. A schedule for plateaus is in the
    wrong mode when it waits for a minimum of a rising score, or for a maximum of a falling loss, by the name of what
    it is given, or because each value is a whole share of the validation samples.

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
    """A schedule that leaves most steps no rate, that runs too seldom or never, or that watches the wrong way."""
    kind, line = type(setup.scheduler).__name__, loop.lines.get("schedule")
    length = planned_length(setup.scheduler)
    wanted = taken_for(setup.scheduler, loop.metrics, validation(setup), line)
    evidence = {"steps": loop.steps, "scheduler steps": loop.scheduled, "share under 1 % of the peak": loop.slow}
    said: tuple[str, str, str] | None = None
    if wanted:
        said = wrong_way(kind, loop, wanted)
    elif loop.slow > most and not isinstance(setup.scheduler, ReduceLROnPlateau):
        said = too_fast(kind, loop, most)
    elif not loop.scheduled and loop.steps > 2 * epoch(setup) > 0:
        epochs = loop.steps / epoch(setup)
        said = (
            f"{kind} never stepped in {loop.steps} steps, which are {epochs:.1f} epochs.",
            "The loop never calls its step().",
            "scheduler.step()   # once an epoch",
        )
    elif length and 0 < loop.scheduled < length / 2 and 0.9 * length <= loop.steps <= 1.1 * length:
        said = (
            f"{kind} is planned for {length} steps and stepped {loop.scheduled} times in {loop.steps} batches: it "
            f"ended {loop.scheduled / length:.1%} of the way, expected 100%.",
            "It is stepped once an epoch, and its length counts batches.",
            "scheduler.step()   # after each optimizer.step(), inside the loop over batches",
        )
    if said:
        message, cause, fix = said
        yield Finding(message, where_of(line), cause, fix, evidence, CONSEQUENCES)


def too_fast(kind: str, loop: Loop, most: float) -> tuple[str, str, str]:
    """Message, cause and fix of a schedule that leaves most steps no rate."""
    often = loop.scheduled >= 0.9 * loop.steps
    return (
        f"{kind} stepped {loop.scheduled} times in {loop.steps} steps: {loop.slow:.0%} of them ran at "
        f"under 1 % of the highest rate, expected under {most:.0%}.",
        "It is stepped with every batch, and its numbers are meant for epochs."
        if often
        else "Each of its steps takes away too much of the rate.",
        "scheduler.step()   # once an epoch, outside the loop over batches"
        if often
        else "# a factor nearer to 1 (gamma=0.95), or fewer milestones",
    )


def wrong_way(kind: str, loop: Loop, wanted: str) -> tuple[str, str, str]:
    """Message, cause and fix of a schedule for plateaus that takes better for worse."""
    other = "min" if wanted == "max" else "max"
    first, last = loop.metrics[0], loop.metrics[-1]
    return (
        f"{kind} waits for a {other}imum of a value that went from {first:.3g} to {last:.3g} in {len(loop.metrics)} "
        f"calls, and should: every gain counts as a plateau, and the rate ended at {loop.decayed:.2g} of its peak.",
        f"The value is {'a score' if wanted == 'max' else 'a loss'}, and the mode is {other!r}.",
        f"scheduler = ReduceLROnPlateau(optimizer, mode={wanted!r})",
    )


def validation(setup: Setup) -> int | None:
    """How many validation samples there are, where the loader says it."""
    data = getattr(setup.val_loader, "dataset", None)
    return len(data) if isinstance(data, Sized) else None


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
