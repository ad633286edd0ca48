"""T602: the loss trends up."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading
from nbdebug.curves.swings import diverging
from nbdebug.finding import Finding, Where
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup


@rule("T602", "error")
def diverging_loss(record: Record) -> Iterator[Finding]:
    """The loss trends up.

    ## What it does
    Looks whether the loss rises over the run and over its second half, to above both where it began and what a constant
    guess gets.

    ## Why it matters
    The steps lead up: their sign is wrong, they are too long, or what they follow is not the gradient of this loss.

    ## How it is measured
    The last fifth must lie over both baselines by a tenth and by four standard errors (block bootstrap), and over the
    lowest tenth of the run. A loss that cannot be held against a constant guess, such as that of an adversary, of
    moving targets or of a growing queue of negatives, must have grown tenfold.

    ## How to fix
    Check the sign of the loss (L213) and ``maximize=``; then lower the rate (O501), clear gradients (O505), clip them.

    ## When to ignore
    When the loss is meant to rise, as the weight of a term that is turned up during the run.

    ## References
    PyTorch documentation of torch.optim, ``maximize``.
    """
    course = reading.course(record)
    if (found := diverging(course)) is None:
        return
    yield Finding(
        message=f"The loss was at {course.start:.4g} when the run began and at {found.end:.4g} when it ended; "
        "expected it to fall.",
        where=Where(step=course.count),
        cause="Steps lead up the loss: a wrong sign, a rate that is too high, or gradients of something else.",
        fix="for group in optimizer.param_groups: print(group['lr'], group.get('maximize'))",
        evidence={"start": course.start, "lowest": found.lowest, "end": found.end, "constant guess": course.chance},
        explains=("T604", "T605", "T606", "T607", "T610"),
    )


def bad() -> Setup:
    """An optimizer that goes up."""
    model = layers(8, 16, 2)
    made = torch.optim.SGD(model.parameters(), lr=0.05, maximize=True)
    return run(model, rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), optimizer=made)


def bad_loop(setup: Setup) -> None:
    """Five epochs."""
    train(setup, 5)


def good() -> Setup:
    """The same going down."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
