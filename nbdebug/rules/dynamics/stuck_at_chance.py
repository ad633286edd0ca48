"""T607: the loss sits at what a constant guess of the label prior gets."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading
from nbdebug.curves.levels import FEWEST, stuck
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup


@rule("T607", "error")
def stuck_at_chance(record: Record) -> Iterator[Finding]:
    """The loss sits at what a constant guess of the label prior gets.

    ## What it does
    Compares where the loss of the run ended with what your own loss gives to one answer for all samples: the class
    frequencies, or the mean of the targets.

    ## Why it matters
    The network has learned how common the labels are, and nothing of the inputs. No patience helps: it does not see
    what would tell samples apart, or no gradient carries it back.

    ## How it is measured
    The last fifth of the run is not under a constant guess beyond two standard errors (block bootstrap) and no more
    than a seventh over it; its second half falls by no more than a hundredth; and the score on fixed training samples,
    where there is one, is what the commonest class gets, within luck. It takes thirty steps. A loop that minimizes
    something else than the loss that is known is left alone.

    ## How to fix
    See what ranks above it: inputs that do not reach the head (M301), labels unrelated to inputs (D106), an output or
    loss that is wrong (L201, L205), a rate that is too low (O502) or has killed every unit (O501, G401).

    ## When to ignore
    When inputs say next to nothing of the target, as returns of tomorrow.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks: the input-independent baseline.
    """
    course = reading.settled(record)
    if course.chance is None:
        raise NotChecked("what a constant guess gets under the loss of your loop is not known")
    if course.count < FEWEST:
        raise NotChecked(f"{course.count} steps are too few to be stuck")
    if not stuck(course):
        return
    yield Finding(
        message=f"After {course.count} steps the loss is {course.end:.4g}; a constant guess, blind to the input, gets "
        f"{course.chance:.4g}.",
        cause="What the network gives does not depend on the input in any way that helps: inputs, labels or gradients "
        "are cut off, or the steps lead nowhere.",
        fix="dbg.overfit()   # if sixteen samples cannot be learned either, the fault is in the model or the loss",
        evidence={
            "end": course.end,
            "standard error": course.error,
            "constant guess": course.chance,
            "training score": course.train.last_score,
            "score of the commonest class": course.majority,
        },
        explains=("T601", "T606", "T608", "T610", "T614", "E702", "E703", "E706", "E709"),
    )


def bad() -> Setup:
    """Labels drawn by lot, and a network too small to learn them by heart."""
    data = rings(noise=1.0), rings(256, noise=1.0, seed=1)
    return run(layers(8, 2, 2), *data, torch.nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Eight epochs."""
    train(setup, 8)


def good() -> Setup:
    """True labels."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
