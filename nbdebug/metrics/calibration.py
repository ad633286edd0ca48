"""Calibration curve, expected calibration error, Brier score and temperature scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, Floats

_DEFAULT_BINS = 15
_RESAMPLES = 1000
_TEMPERATURE_BOUNDS = 0.05, 20.0
_TEMPERATURE_TOLERANCE = 1e-4  # relative; finer than the statistical error of any realistic number of rows
_MAX_LOGITS, _MIN_FIT_ROWS = (
    500_000,
    2_000,
)  # at most this many logits, but always this many rows: fits in about a second


@dataclass(frozen=True)
class CalibrationCurve:
    """Accuracy against confidence in bins of equal counts, ordered by confidence.

    Each bin has a count, a mean confidence, an accuracy, and the band (``low`` to ``high``) that contains the accuracy
    of a calibrated model. ``calibration_error`` is the expected calibration error: the mean absolute difference between
    confidence and accuracy, weighted by counts. ``chance_error`` is the upper limit of that error for a calibrated
    model. ``lowest`` and ``highest`` are the lowest and highest confidence in each bin; equal confidences always share
    a bin.
    """

    counts: NDArray[np.int64]
    lowest: Floats
    highest: Floats
    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    calibration_error: float
    chance_error: float
    level: float

    @property
    def is_miscalibrated(self) -> bool:
        """Return whether the calibration error is larger than chance explains."""
        return self.calibration_error > self.chance_error

    @property
    def is_overconfident(self) -> bool:
        """Return whether mean confidence exceeds accuracy."""
        return float(np.sum(self.counts * (self.confidence - self.accuracy))) > 0


def calibration_curve(
    confidence: Floats, correct: NDArray[np.bool_], bins: int = _DEFAULT_BINS, level: float = CONFIDENCE_LEVEL
) -> CalibrationCurve:
    """Compare confidence with accuracy in bins that hold equal numbers of rows, as far as ties allow.

    Expects at least one row. Equal counts give each bin the same precision (Nixon et al. 2019, arXiv:1904.01685). The
    band and ``chance`` come from outcomes simulated with the confidences as probabilities (Bröcker and Smith 2007,
    doi:10.1175/WAF993.1).
    """
    order = np.argsort(confidence, kind="stable")
    sorted_confidence, sorted_correct = np.asarray(confidence, np.float64)[order], np.asarray(correct, bool)[order]
    bins = max(1, min(bins, len(sorted_confidence)))
    edges = np.unique(
        np.searchsorted(
            sorted_confidence, sorted_confidence[np.linspace(0, len(sorted_confidence), bins + 1).astype(int)[:-1]]
        )
    )
    edges = np.append(edges, len(sorted_confidence))
    counts = np.diff(edges)
    mean_confidence, accuracy = _bin_means(sorted_confidence, edges), _bin_means(sorted_correct, edges)
    spread = np.sqrt(_bin_means(sorted_confidence * (1 - sorted_confidence), edges) / np.maximum(counts, 1))
    simulated = np.clip(
        mean_confidence + spread * np.random.default_rng(0).standard_normal((_RESAMPLES, len(counts))), 0, 1
    )
    low, high = np.quantile(simulated, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    errors = _calibration_distance(simulated, mean_confidence, counts)
    error = float(_calibration_distance(accuracy[None], mean_confidence, counts)[0])
    lowest, highest = sorted_confidence[edges[:-1]], sorted_confidence[edges[1:] - 1]
    return CalibrationCurve(
        counts, lowest, highest, mean_confidence, accuracy, low, high, error, float(np.quantile(errors, level)), level
    )


def _bin_means(values: NDArray[np.generic], edges: NDArray[np.int64]) -> Floats:
    """Return the mean of each stretch between edges."""
    sums = np.add.reduceat(values.astype(np.float64), edges[:-1])
    return np.asarray(sums / np.diff(edges))


def _calibration_distance(accuracy: Floats, confidence: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return the count-weighted mean absolute difference from the confidences, for each row of accuracies."""
    return np.asarray((np.abs(accuracy - confidence) * counts).sum(-1) / max(int(counts.sum()), 1))


def brier_score(probabilities: Floats, target: NDArray[np.int64]) -> float:
    """Return the Brier score, 0 to 2: the mean squared error of the probabilities, shape (rows, classes).

    Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2.
    """
    squares = np.einsum("ij,ij->i", probabilities, probabilities)
    target_probabilities = probabilities[np.arange(len(target)), target]
    return float(np.mean(squares - 2 * target_probabilities + 1))


def fit_temperature(logits: Floats, target: NDArray[np.int64]) -> float:
    """Return the temperature that minimizes the cross-entropy of the logits, shape (rows, classes).

    Accuracy does not change. Evaluate on other rows than those it is fitted on. Guo et al. 2017, arXiv:1706.04599.
    """
    from scipy.optimize import minimize_scalar

    optimum = minimize_scalar(
        lambda log: scaled_cross_entropy(logits, target, float(np.exp(log))),
        bounds=np.log(_TEMPERATURE_BOUNDS),
        method="bounded",
        options={"xatol": _TEMPERATURE_TOLERANCE},
    )
    return float(np.exp(optimum.x))


def scaled_cross_entropy(logits: Floats, target: NDArray[np.int64], divisor: float) -> float:
    """Return the mean cross-entropy of logits divided by a temperature."""
    scaled = logits / divisor
    top = scaled.max(1, keepdims=True)
    total = np.log(np.exp(scaled - top).sum(1)) + top[:, 0]
    return float(np.mean(total - scaled[np.arange(len(target)), target]))


@dataclass(frozen=True)
class TemperatureScaling:
    """A temperature fitted on all ``rows``, and its effect on rows that it was not fitted on.

    ``loss_before`` and ``loss_after`` are cross-entropies; ``before`` and ``after`` hold the calibration errors.
    """

    temperature: float
    rows: int
    loss_before: float
    loss_after: float
    before: CalibrationCurve
    after: CalibrationCurve

    @property
    def helps(self) -> bool:
        """Return whether the model is miscalibrated and scaling lowers both the loss and the calibration error."""
        lower = self.loss_after < self.loss_before and self.after.calibration_error < self.before.calibration_error
        return self.before.is_miscalibrated and lower


def temperature_scaling(
    logits: NDArray[Any], target: NDArray[np.int64], max_logits: int = _MAX_LOGITS
) -> TemperatureScaling:
    """Fit a temperature to logits, shape (rows, classes), with at least two rows.

    The evaluation is cross-fitted: each half is scaled with the temperature of the other half. Large inputs are
    subsampled with a fixed seed.
    """
    order = np.random.default_rng(0).permutation(len(target))[: max(_MIN_FIT_ROWS, max_logits // logits.shape[1])]
    logits, target = np.asarray(logits, np.float64)[order], np.asarray(target)[order]
    middle = len(target) // 2
    halves = slice(None, middle), slice(middle, None)
    temperatures = [fit_temperature(logits[half], target[half]) for half in reversed(halves)]
    scaled = np.concatenate([logits[half] / divisor for half, divisor in zip(halves, temperatures, strict=True)])
    return TemperatureScaling(
        fit_temperature(logits, target),
        len(target),
        scaled_cross_entropy(logits, target, 1.0),
        scaled_cross_entropy(scaled, target, 1.0),
        _top_class_reliability(logits, target),
        _top_class_reliability(scaled, target),
    )


def _top_class_reliability(logits: Floats, target: NDArray[np.int64]) -> CalibrationCurve:
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return calibration_curve((exponentials / exponentials.sum(1, keepdims=True)).max(1), logits.argmax(1) == target)
