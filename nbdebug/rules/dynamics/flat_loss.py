"""T601: the loss does not move beyond its noise."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading
from nbdebug.curves.levels import FEWEST, flat
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup


@rule("T601", "warning")
def flat_loss(record: Record) -> Iterator[Finding]:
    """The loss does not move beyond its noise.

    ## What it does
    Looks whether the loss of a whole run ended where it began, while it stands far from where it should be.

    ## Why it matters
    Nothing was learned. Something holds the weights, or the steps are too small, or they lead nowhere.

    ## How it is measured
    Against this run alone: the straight line through all steps changes by less than three of its standard errors (by
    block bootstrap) or by less than a fiftieth of the level, and the last fifth stands where the first steps did. It
    takes thirty steps. A loss under half of what a constant guess gets, a high score, training samples that are told
    apart better than by luck, and a loop that minimizes something else than the loss that is known, as with adversaries
    and rewards, are left alone.

    ## How to fix
    See what ranks above it: parameters that never move (O503, M301), a rate that is too low (O502) or too high (O501),
    labels that have nothing to do with the inputs (D106). Then try the tiny batch: ``dbg.overfit()``.

    ## When to ignore
    When the model had been trained before, or the loss is meant to stay, as in a game of two networks.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks. Künsch 1989: the block bootstrap.
    """
    course = reading.settled(record)
    if course.count < FEWEST:
        raise NotChecked(f"{course.count} steps are too few to tell a flat loss from a slow one")
    if not course.known:
        raise NotChecked("your loop minimizes something else than the loss that is known")
    if not flat(course):
        return
    yield Finding(
        message=f"The loss began at {course.start:.4g} and ended at {course.end:.4g} after {course.count} steps; "
        f"{4 * course.error:.2g} of difference is noise.",
        cause="The steps of the optimizer change nothing that the loss depends on, or lead nowhere.",
        fix="dbg.overfit()   # can these weights learn sixteen samples at all?",
        evidence={
            "start": course.start,
            "end": course.end,
            "standard error": course.error,
            "change": course.whole.change,
            "share of a constant guess": course.share,
        },
        explains=("T606", "T610", "T614"),
    )


def bad() -> Setup:
    """Plain descent at a rate a million times too low."""
    model = layers(8, 16, 2)
    made = torch.optim.SGD(model.parameters(), lr=1e-6)
    return run(model, rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), optimizer=made)


def bad_loop(setup: Setup) -> None:
    """Five epochs."""
    train(setup, 5)


def good() -> Setup:
    """The same at a rate that fits."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
