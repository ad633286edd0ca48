"""T604: the loss swings without settling."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading
from nbdebug.curves.swings import oscillating
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, run, train, waves
from nbdebug.setup import Setup


@rule("T604", "warning")
def oscillating_loss(record: Record) -> Iterator[Finding]:
    """The loss swings without settling.

    ## What it does
    Cuts the run into sixteen stretches and looks how often the mean of one lies far over that of the one before.

    ## Why it matters
    A loss that keeps coming back is thrown over the valley by its own steps: the rate or the momentum is too high, or
    gradients pile up.

    ## How it is measured
    A rise counts when it is a quarter of the level and three standard errors of both stretches (block bootstrap). Three
    such rises after the first fifth are too many, unless the last stretches lie well under the first. It takes sixty
    steps, and a loss at a fifth of a constant guess or more.

    ## How to fix
    Lower the learning rate or the momentum; clear gradients between steps; let a schedule bring the rate down.

    ## When to ignore
    When the task itself changes on the way: restarts, curricula, moving targets.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 8.3.
    """
    course = reading.settled(record)
    if course.count < 60:
        raise NotChecked(f"{course.count} steps are too few to tell swings from noise")
    if (found := oscillating(course)) is None:
        return
    yield Finding(
        message=f"The loss rose {found.rises} times by a quarter or more of its level between one sixteenth of the run "
        f"and the next, once by {found.largest:.0%}; it ended at {course.standing}.",
        cause="Steps are so long that they carry the weights across the valley and back.",
        fix="optimizer.param_groups[0]['lr'] /= 10",
        evidence={"rises": found.rises, "largest": found.largest, "end": course.end},
        explains=("T605", "T606", "T610"),
    )


def bad() -> Setup:
    """A regression."""
    return run(layers(4, 32, 1), waves(), waves(256, seed=1), torch.nn.MSELoss(), lr=5e-3)


def bad_loop(setup: Setup) -> None:
    """Thirty epochs in which gradients pile up."""
    for x, y in [*setup.train_loader] * 30:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()


def good() -> Setup:
    """The same."""
    return bad()


def good_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)
