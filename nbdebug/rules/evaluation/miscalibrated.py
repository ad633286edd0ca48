"""E703: confidence and accuracy differ by more than chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.metrics.calibration import CalibrationCurve, TemperatureScaling, calibration_curve
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classification_table, healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.errors import Errors

_CONFIDENCE_LEVEL, _MIN_ROWS = 0.995, 200


@rule("E703", "warning")
def miscalibrated(errors: Errors, *, least: float = 0.05) -> Iterator[Finding]:
    """Confidence and accuracy differ by more than chance.

    ## What it does
    Sorts rows by the probability of the predicted class and compares it, bin by bin, with the accuracy. If all scores
    are available, it fits a temperature on each half of the rows and evaluates it on the other half.

    ## Why it matters
    A threshold on confidence, an expected cost and a referral to a human all assume that 0.9 means nine in ten.

    ## How it is measured
    In up to 15 bins of equal counts. The expected calibration error is larger than in 199 of 200 resamples in which
    each row is correct with the predicted probability (consistency resampling), and exceeds their median by ``least`` =
    0.05, so that a small number of rows does not inflate it. It requires 200 rows.

    ## How to fix
    Divide the logits by a number that is fitted on held-out rows (temperature scaling); predictions do not change.
    Against the cause: early stopping, label smoothing, weight decay.

    ## When to ignore
    When only the ranking of predictions matters, or class weights shift the probabilities on purpose.

    ## References
    Guo et al. 2017, arXiv:1706.04599. Bröcker and Smith 2007, doi:10.1175/WAF993.1. Nixon et al. 2019,
    arXiv:1904.01685.
    """
    table = classification_table(errors)
    confidence = table.columns.get("confidence")
    if confidence is None:
        raise NotChecked("there are no scores, only labels")
    rows = np.flatnonzero((table.target >= 0) & np.isfinite(confidence))
    if len(rows) < _MIN_ROWS:
        raise NotChecked(f"{len(rows)} rows are too few to compare confidence with accuracy; {_MIN_ROWS} are needed")
    confidences, correct = confidence[rows].astype(np.float64), table.right[rows]
    calibration = calibration_curve(confidences, correct, level=_CONFIDENCE_LEVEL)
    if (
        calibration.is_miscalibrated
        and calibration.calibration_error - calibration_curve(confidences, correct, level=0.5).chance_error > least
    ):
        yield _finding(calibration, _helpful_scaling(errors))


def _helpful_scaling(errors: Errors) -> TemperatureScaling | None:
    """Return the fitted temperature if all scores are available and it helps."""
    try:
        scaling = errors.temperature()
    except SetupError:
        return None
    return scaling if scaling.helps else None


_OVERCONFIDENT = (
    "The model is overconfident: either training continued to reduce the loss of rows already correct, or these rows "
    "differ from those of training."
)
_UNDERCONFIDENT = (
    "The model is underconfident: either training ended early, or label smoothing or another regularization keeps the "
    "probabilities low."
)


def _finding(calibration: CalibrationCurve, scaling: TemperatureScaling | None) -> Finding:
    mean_confidence = float(np.average(calibration.confidence, weights=calibration.counts))
    accuracy = float(np.average(calibration.accuracy, weights=calibration.counts))
    cause = _OVERCONFIDENT if calibration.is_overconfident else _UNDERCONFIDENT
    fix = "errors.calibration()   # check where; stop training earlier, or use label smoothing"
    if scaling is not None:
        fix = (
            f"probabilities = torch.softmax(logits / {scaling.temperature:.2f}, 1)   "
            f"# on held-out rows, the error changes from {scaling.before.calibration_error:.1%} to "
            f"{scaling.after.calibration_error:.1%}"
        )
    return Finding(
        message=f"The expected calibration error is {calibration.calibration_error:.1%} (at most "
        f"{calibration.chance_error:.1%} by chance): mean confidence {mean_confidence:.1%}, accuracy {accuracy:.1%}.",
        cause=cause,
        fix=fix,
        evidence={
            "calibration error": calibration.calibration_error,
            "by chance": calibration.chance_error,
            "confidence": mean_confidence,
            "accuracy": accuracy,
            "temperature": scaling.temperature if scaling else None,
        },
    )


def bad() -> Setup:
    """A wide network that memorizes 64 samples, some of them with wrong labels."""
    data = rings(64, noise=0.3), rings(256, noise=0.3, seed=1)
    return training_setup(mlp(8, 128, 128, 2), *data, torch.nn.CrossEntropyLoss(), batch_size=16)


def bad_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)


def good() -> Setup:
    """A small network on all samples."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
