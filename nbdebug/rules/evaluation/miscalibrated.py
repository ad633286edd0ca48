"""E703: confidence and accuracy disagree beyond chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.metrics.calibration import Reliability, reliability
from nbdebug.metrics.scaling import Scaling
from nbdebug.registry import rule
from nbdebug.rules.judging import classified
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.errors import Errors

LEVEL, FEWEST = 0.995, 200


@rule("E703", "warning")
def miscalibrated(errors: Errors, *, least: float = 0.05) -> Iterator[Finding]:
    """Confidence and accuracy disagree beyond chance.

    ## What it does
    Sorts rows by the probability of the class that was predicted and compares it, bin by bin, with the share that is
    right. Where all scores are at hand it fits a temperature on each half and tells what it does to the other one.

    ## Why it matters
    A threshold on confidence, an expected cost and a hand-over to a person all take 0.9 for nine in ten.

    ## How it is measured
    In up to 15 bins of equal counts. The mean distance of confidence and accuracy is larger than in 199 of 200 draws
    in which each row is right with the probability that the model gave it (consistency resampling), and larger by
    ``least`` = 0.05 than in the middle one of them, so that few rows do not make it large. It takes 200 rows.

    ## How to fix
    Divide the logits by one number that is fitted on held-out rows (temperature scaling); answers stay as they are.
    Against the cause: stop earlier, label smoothing, weight decay.

    ## When to ignore
    When only the order of answers counts, or the weights of classes shift the probabilities on purpose.

    ## References
    Guo et al. 2017, arXiv:1706.04599. Bröcker and Smith 2007, doi:10.1175/WAF993.1. Nixon et al. 2019,
    arXiv:1904.01685.
    """
    table = classified(errors)
    confidence = table.columns.get("confidence")
    if confidence is None:
        raise NotChecked("there are no scores, only labels")
    rows = np.flatnonzero((table.target >= 0) & np.isfinite(confidence))
    if len(rows) < FEWEST:
        raise NotChecked(f"{len(rows)} rows are too few to compare confidence with accuracy")
    sure, right = confidence[rows].astype(np.float64), table.right[rows]
    found = reliability(sure, right, level=LEVEL)
    if found.is_off and found.error - reliability(sure, right, level=0.5).chance > least:
        yield finding(found, scaled(errors))


def scaled(errors: Errors) -> Scaling | None:
    """What one temperature does, where all scores are at hand and it helps."""
    try:
        found = errors.temperature()
    except SetupError:
        return None
    return found if found.helps else None


def finding(found: Reliability, scaled: Scaling | None) -> Finding:
    """What disagrees, and what one number would do."""
    sure = float(np.average(found.confidence, weights=found.counts))
    right = float(np.average(found.accuracy, weights=found.counts))
    direction = "too sure of itself" if found.overconfident else "less sure than it could be"
    fix = "errors.calibration()   # look where; stop training earlier, or smooth the labels"
    if scaled is not None:
        fix = (
            f"probabilities = torch.softmax(logits / {scaled.temperature:.2f}, 1)   "
            f"# on rows it was not fitted on, the error goes from {scaled.before.error:.1%} to {scaled.after.error:.1%}"
        )
    return Finding(
        message=f"Confidence is off by {found.error:.1%} on average, of which chance explains at most "
        f"{found.chance:.1%}: it says {sure:.1%}, and {right:.1%} are right.",
        cause=f"The model is {direction}"
        + (": it went on lowering the loss of rows that it had right." if found.overconfident else "."),
        fix=fix,
        evidence={
            "calibration error": found.error,
            "by chance": found.chance,
            "confidence": sure,
            "accuracy": right,
            "temperature": scaled.temperature if scaled else None,
        },
    )


def bad() -> Setup:
    """A wide network that learns 64 samples by heart, of whose labels some are wrong."""
    data = rings(64, noise=0.3), rings(256, noise=0.3, seed=1)
    return run(layers(8, 128, 128, 2), *data, torch.nn.CrossEntropyLoss(), batch_size=16)


def bad_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)


def good() -> Setup:
    """A small network on all samples."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
