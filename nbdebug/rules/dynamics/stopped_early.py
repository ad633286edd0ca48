"""T614: the loss was still falling when training ended."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading
from nbdebug.curves.levels import still_falling
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup


@rule("T614", "note")
def stopped_early(record: Record) -> Iterator[Finding]:
    """The loss was still falling when training ended.

    ## What it does
    Looks whether the last quarter of the run still gained something beyond noise: a note. A warning where the fall had
    not begun to slow and most of the way was still to go.

    ## Why it matters
    The same program would do better if it ran on. What is compared at that point compares how fast things start.

    ## How it is measured
    The straight line through the last quarter falls by three standard errors (block bootstrap) and by a fiftieth of
    what is left. It is steep when it falls by a twelfth of what is left and by four standard errors, no earlier quarter
    gained half as much again, and a quarter of a constant guess is left; or when next to nothing was learned so far,
    and a fiftieth is gained. A score of 0.97 makes it moot.

    ## How to fix
    Train on; or raise the rate if each epoch is dear (O502).

    ## When to ignore
    When the run was only a trial, or ended on purpose.

    ## References
    Prechelt 1998, Early Stopping, But When? Neural Networks: Tricks of the Trade.
    """
    if not record.about.get("finished", True):
        raise NotChecked("the run is still under way")
    if record.about.get("interrupted"):
        raise NotChecked("you stopped the run yourself")
    course = reading.course(record)
    if (found := still_falling(course)) is None:
        return
    yield Finding(
        message=f"The run ended at step {course.count} while the loss was still falling: its last quarter gained "
        f"{found.gain:.0%} of what is left, {found.sigmas:.0f} standard errors; it stands at {course.standing}.",
        where=Where(step=course.count),
        cause="Training ends before the model is done.",
        fix="epochs *= 5   # and watch where the loss settles",
        evidence={
            "gain of the last quarter": found.gain,
            "standard errors": found.sigmas,
            "end": course.end,
            "steps": course.count,
            "score": course.score,
        },
        explains=("T610", "E709") if found.steep else (),
        severity="warning" if found.steep else None,
    )


def bad() -> Setup:
    """Small steps."""
    model = layers(8, 32, 2)
    made = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    return run(model, rings(1024), rings(256, seed=1), torch.nn.CrossEntropyLoss(), optimizer=made, batch_size=64)


def bad_loop(setup: Setup) -> None:
    """Six epochs."""
    train(setup, 6)


def good() -> Setup:
    """Large enough ones."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
