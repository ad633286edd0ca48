"""Per-row scores of a predictor, and paired comparison of predictors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.comparison import compare_paired
from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, wilson_interval

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
MODEL = "model"  # the name of the model among the predictors
HIGHER_IS_BETTER = frozenset({"accuracy", "balanced accuracy"})  # lower is better for all others
MAX_LOSS = 100.0  # the loss where the true class has probability 0; about that of the smallest float32
_RESAMPLES = 1000
_ResampleWeights = NDArray[np.float32]


@dataclass(frozen=True)
class PredictorScores:
    """One predictor: ``scores`` maps a metric to one value per row, whose mean is the metric.

    ``description`` says what the predictor does. ``correct`` tells which rows it predicts correctly, None for numbers.
    """

    name: str
    description: str
    rows: Rows
    scores: dict[str, Floats]
    correct: NDArray[np.bool_] | None = None

    def value(self, metric: str) -> float:
        """Return the metric."""
        return float(self.scores[metric].mean())


def score_labels(
    name: str, description: str, rows: Rows, target: Any, prediction: Any, loss: Floats | None = None
) -> PredictorScores:
    """Score predicted classes; ``loss`` is the cross-entropy of each row, if there are probabilities."""
    correct = np.asarray(prediction == target)
    return PredictorScores(
        name, description, rows, classification_scores(correct.astype(np.float64), target, loss), correct
    )


def classification_scores(correct_probability: Floats, target: Any, loss: Floats | None = None) -> dict[str, Floats]:
    """Return accuracy, balanced accuracy and log loss of each row.

    ``correct_probability`` is the probability that the prediction of a row is correct.
    """
    counts = np.bincount(target)
    weight = len(target) / np.count_nonzero(counts) / counts[target]
    scores = {"accuracy": correct_probability, "balanced accuracy": correct_probability * weight}
    return scores if loss is None else {**scores, "log loss": np.nan_to_num(loss, posinf=MAX_LOSS).clip(max=MAX_LOSS)}


def score_values(name: str, description: str, rows: Rows, target: Floats, prediction: Any) -> PredictorScores:
    """Score predicted numbers."""
    residuals = target - prediction
    return PredictorScores(
        name, description, rows, {"mean squared error": residuals**2, "mean absolute error": np.abs(residuals)}
    )


def cross_entropies(probabilities: Floats, target: Any) -> Floats:
    """Return the cross-entropy of each row of probabilities, shape (rows, classes)."""
    target_probabilities = np.asarray(probabilities, np.float64)[np.arange(len(target)), target]
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(target_probabilities))


@dataclass(frozen=True)
class MetricComparison:
    """One metric of one predictor with its interval, and the gain of the model over it on the same rows.

    ``gain`` is positive if the model is better, also for metrics where lower is better; for the model itself it is 0.
    """

    name: str
    metric: str
    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    rows: int

    @property
    def is_beaten(self) -> bool:
        """Return whether the model is significantly better."""
        return self.gain_low > 0


def compare_scores(model: PredictorScores, others: Sequence[PredictorScores]) -> Iterator[MetricComparison]:
    """Yield the metrics of the model, then of each baseline, each on the rows of that baseline."""
    weights = _bootstrap_weights(len(model.rows))
    for predictor in (model, *others):
        positions = np.searchsorted(model.rows, predictor.rows)
        for metric in (name for name in predictor.scores if name in model.scores):
            yield _compare_metric(model, predictor, metric, positions, weights)


def _compare_metric(
    model: PredictorScores,
    predictor: PredictorScores,
    metric: str,
    positions: NDArray[np.int64],
    weights: _ResampleWeights,
) -> MetricComparison:
    """Compare one metric.

    Accuracies have Wilson intervals and their differences those of paired proportions (``compare_paired``). All other
    metrics have intervals from a paired bootstrap over the rows (Efron and Tibshirani 1993, chapter 13).
    """
    model_values, values = model.scores[metric][positions], predictor.scores[metric]
    sign = 1.0 if metric in HIGHER_IS_BETTER else -1.0
    model_correct, correct = model.correct, predictor.correct
    if metric == "accuracy" and model_correct is not None and correct is not None:
        low, high = (float(end) for end in wilson_interval(correct.sum(), len(correct)))
        paired = compare_paired(correct, model_correct[positions])
        gains = (paired.low, paired.high) if predictor is not model else (0.0, 0.0)
    else:
        low, high = _bootstrap_interval(values, weights[:, positions])
        gains = _bootstrap_interval(sign * (model_values - values), weights[:, positions])
    gain = float(sign * (model_values - values).mean())
    return MetricComparison(predictor.name, metric, float(values.mean()), low, high, gain, *gains, len(values))


def _bootstrap_weights(rows: int) -> _ResampleWeights:
    """Return how often each row occurs in each of 1,000 bootstrap samples, with a fixed seed."""
    generator = np.random.default_rng(0)
    counts = (np.bincount(generator.integers(0, rows, rows), minlength=rows) for _ in range(_RESAMPLES))
    return np.stack([row_counts.astype(np.float32) for row_counts in counts])


def _bootstrap_interval(values: Floats, weights: _ResampleWeights) -> tuple[float, float]:
    means = weights @ values.astype(np.float32) / np.maximum(weights.sum(1), 1)
    low, high = np.quantile(means, [0.5 - CONFIDENCE_LEVEL / 2, 0.5 + CONFIDENCE_LEVEL / 2])
    return float(low), float(high)
