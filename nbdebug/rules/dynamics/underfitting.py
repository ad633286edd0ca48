"""T610: training and validation loss both stay poor."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading
from nbdebug.curves.levels import plateau, worthless
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup


@rule("T610", "warning")
def underfitting(record: Record, *, poor: float = 0.5) -> Iterator[Finding]:
    """Training and validation loss both stay poor.

    ## What it does
    Looks whether a run that no longer gains anything stands at half of a constant guess or more, on both splits. A
    warning where it stands over the constant guess itself and tells nothing apart; else a note, since noise in the
    labels looks the same.

    ## Why it matters
    What does not fit the samples it was trained on will fit no others. More of the same training changes nothing.

    ## How it is measured
    The second half of the run has no trend of three standard errors (block bootstrap), and fixed samples of both
    splits, in eval mode, agree. A score of 0.97 makes it moot.

    ## How to fix
    A larger model, features that say more, a rate that fits (O501, O502). ``dbg.overfit()`` tells whether the model can
    learn at all.

    ## When to ignore
    When the labels are as noisy as that: compare with a simple baseline, or with what a person gets.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 5.2.
    """
    course = reading.settled(record)
    if course.chance is None:
        raise NotChecked("what a constant guess gets under the loss of your loop is not known")
    found, sure = plateau(course, poor), worthless(course)
    if found is None and not sure:
        return
    if len(course.val.loss) and course.val.loss[-1] > 1.5 * course.train.loss[-1]:
        return
    yield Finding(
        message=f"After {course.count} steps the loss stands at {course.standing}, and no longer falls.",
        cause="The model is too small for the task, its steps do not fit, or the labels are noise."
        if not sure
        else "The network does worse than one answer for all samples.",
        fix="dbg.overfit()   # can the model learn sixteen samples?",
        evidence={
            "end": course.end,
            "constant guess": course.chance,
            "training": last(course.train.loss),
            "validation": last(course.val.loss),
            "score": course.score,
        },
        severity="warning" if sure else "note",
    )


def last(values: object) -> float | None:
    """The last of some values, if there are any."""
    found = list(values)  # type: ignore[call-overload]
    return float(found[-1]) if found else None


def bad() -> Setup:
    """A linear model for rings."""
    return run(layers(8, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=2e-2)


def bad_loop(setup: Setup) -> None:
    """Fifteen epochs."""
    train(setup, 15)


def good() -> Setup:
    """With a hidden layer."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
