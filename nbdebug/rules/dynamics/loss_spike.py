"""T605: sudden spikes of the loss."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import Course, reading
from nbdebug.curves.swings import spiked
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, run, train, waves
from nbdebug.setup import Setup

NAMED = 5  # spikes that a message lists


@rule("T605", "warning")
def loss_spike(record: Record) -> Iterator[Finding]:
    """The loss leaps up at single steps.

    ## What it does
    Names the steps, and the batches of their epochs, at which the loss towers over the steps around.

    ## Why it matters
    Single batches that cost many times the others hold samples that are wrong, or out of range; one step on them can
    undo many.

    ## How it is measured
    A spike stands out of the running median of fifteen steps by ten times the spread about it, lies over twice of
    what the first steps cost, and over thrice of what all steps but one an epoch stay under. The
    opening of the run is not looked at, nor a rise that stays.

    ## How to fix
    Look at the samples of the batches that are named. Clip gradients; use a loss that is less harsh on outliers.

    ## When to ignore
    When rare samples are meant to cost so much.

    ## References
    Chowdhery et al. 2022, arXiv:2204.02311, section 5.1: spikes come from a batch and a state of the weights together.
    """
    course = reading.course(record)
    if course.count < 30:
        raise NotChecked(f"{course.count} steps are too few to tell a spike from a start")
    places = spiked(course)
    if not places or len(places) > 3 + len(course.loss) * max(0.05, 1.5 / max(course.per_epoch, 1)):
        return
    steps = [int(course.steps[at]) for at in places]
    worst = max(places, key=lambda at: course.loss[at])
    yield Finding(
        message=f"The loss leaps at {len(steps)} of {course.count} steps: {listed(steps, course.per_epoch)}; the "
        f"highest is {course.loss[worst]:.4g} where {usual(course, worst):.4g} is usual.",
        where=Where(step=int(course.steps[worst])),
        cause="A batch at these steps holds samples far off the others, or the steps before it were too long.",
        fix="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # before step(), and look at the batch",
        evidence={"steps": steps[:50], "highest": float(course.loss[worst]), "usual": usual(course, worst)},
    )


def usual(course: Course, at: int) -> float:
    """The middle of the losses around a place."""
    around = sorted(course.loss[max(0, at - 8) : at + 9].tolist())
    return float(around[len(around) // 2])


def listed(steps: list[int], per_epoch: int) -> str:
    """The first steps, with the batch of the epoch where epochs are known."""
    batch = f" (batch {{}} of {per_epoch})" if per_epoch else ""
    named = [f"{step}{batch.format((step - 1) % per_epoch + 1) if per_epoch else ''}" for step in steps[:NAMED]]
    more = f" and {len(steps) - NAMED} more" if len(steps) > NAMED else ""
    return ", ".join(named) + more


def program(outlier: float) -> Setup:
    """A regression in which one target may be far off."""
    model = layers(4, 32, 1)
    x, y = waves()
    y[100] = y[100] if outlier == 0 else outlier
    made = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return run(model, (x, y), waves(256, seed=1), torch.nn.MSELoss(), optimizer=made)


def bad() -> Setup:
    """One target is a hundred times as large as the others."""
    return program(80.0)


def bad_loop(setup: Setup) -> None:
    """Twelve epochs, with clipped gradients."""
    train(setup, 12, clip=0.5)


def good() -> Setup:
    """All targets alike."""
    return program(0.0)


def good_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)
