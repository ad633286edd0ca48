"""T606: progress has stopped well above zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import levels as standing
from nbdebug.curves import reading
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup


@rule("T606", "note")
def plateau(record: Record) -> Iterator[Finding]:
    """Progress has stopped well above zero.

    ## What it does
    Names the step since which the loss gains nothing beyond its noise, where it stands far from zero.

    ## Why it matters
    Steps after it are spent in vain. It may be all that the data allow: then stop earlier. Or rate, model or data hold
    it there.

    ## How it is measured
    The second half of the run has no trend of three standard errors, by block bootstrap; the last break in level, by
    binary segmentation, lies in its first two thirds; and the loss is at a quarter of a constant guess or more.

    ## How to fix
    Lower the rate by a schedule, and see whether the loss goes on falling. If not, a larger model or better data.

    ## When to ignore
    When the task is noisy, and this is its noise.

    ## References
    Scott and Knott 1974: binary segmentation; Schwarz 1978: its penalty.
    """
    course = reading.settled(record)
    if course.count < standing.FEWEST:
        raise NotChecked(f"{course.count} steps are too few to see a plateau")
    if (found := standing.plateau(course)) is None:
        return
    yield Finding(
        message=f"Since step {found.since} of {course.count} the loss gains nothing beyond its noise; it stands at "
        f"{course.standing}.",
        where=Where(step=found.since),
        cause="The noise of the task, a rate too high for the last part of the way, or a model that can do no more.",
        fix="scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)",
        evidence={"since": found.since, "share": found.share, "gain of the second half": -course.half.change},
    )


def bad() -> Setup:
    """Labels of which six in ten are drawn by lot."""
    data = rings(noise=0.6), rings(256, noise=0.6, seed=1)
    return run(layers(8, 8, 2), *data, torch.nn.CrossEntropyLoss(), lr=2e-2)


def bad_loop(setup: Setup) -> None:
    """Fifteen epochs."""
    train(setup, 15)


def good() -> Setup:
    """True labels."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
