"""Metrics whose mean over batches differs from their value on all rows, by the ways to compute them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.classification import (
    balanced_accuracy,
    cohen_kappa,
    confusion_matrix,
    f1_score,
    matthews_correlation,
)

_Array = NDArray[np.float64]
_Flags = NDArray[np.bool_]
_MAX_CLASSES = 1000


def whole_set_metrics(scores: _Array, targets: _Array) -> dict[str, float]:
    """Return each metric that outputs and targets allow; NaN for those that are undefined on these rows.

    The root of the mean squared error is none of them, since it may be the loss, whose mean over batches is common.
    Targets of the size of the outputs may be numbers or classes of two; others must be the class of each row.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {name: float(value) for name, value in _metrics(scores, targets)}


def _metrics(scores: _Array, targets: _Array) -> Iterator[tuple[str, float]]:
    if scores.size == targets.size:
        if np.isin(targets, (0.0, 1.0)).all():
            for name, threshold in (("", 0.0), (" at 0.5", 0.5)):
                yield from binary_metrics(scores.ravel() > threshold, targets.ravel() > 0.5, name)
            yield "AUC", area_under_curve(scores.ravel(), targets.ravel() > 0.5)
        else:
            yield from _regression_metrics(scores.reshape(targets.shape), targets)
    elif scores.ndim == 2 and len(scores) == targets.size and 1 < scores.shape[1] <= _MAX_CLASSES:
        yield from _class_metrics(scores, targets.ravel())


def _regression_metrics(scores: _Array, targets: _Array) -> Iterator[tuple[str, float]]:
    squares, spread = (scores - targets) ** 2, (targets - targets.mean()) ** 2
    yield "R²", 1 - squares.sum() / spread.sum()
    if targets.ndim > 1 and targets.shape[1] > 1:
        spread = (targets - targets.mean(0)) ** 2
        yield "R² (mean of the outputs)", float(np.mean(1 - squares.sum(0) / spread.sum(0)))
    yield "correlation", float(np.corrcoef(scores.ravel(), targets.ravel())[0, 1])
    yield "rank correlation", float(np.corrcoef(_ranks(scores.ravel()), _ranks(targets.ravel()))[0, 1])


def _class_metrics(scores: _Array, targets: _Array) -> Iterator[tuple[str, float]]:
    classes = scores.shape[1]
    labels = targets.astype(np.int64)
    if not (labels == targets).all() or labels.min() < 0 or labels.max() >= classes:
        return
    predicted = scores.argmax(1)
    matrix = confusion_matrix(labels, predicted, classes)
    compute: dict[str, Callable[[], float]] = {
        "macro F1": lambda: f1_score(matrix),
        "weighted F1": lambda: f1_score(matrix, "weighted"),
        "balanced accuracy": lambda: balanced_accuracy(matrix),
        "Matthews correlation": lambda: matthews_correlation(matrix),
        "Cohen's kappa": lambda: cohen_kappa(matrix),
    }
    yield from ((name, metric()) for name, metric in compute.items())
    if classes == 2:
        yield from binary_metrics(predicted == 1, labels == 1, "")
        yield "AUC", area_under_curve(scores[:, 1] - scores[:, 0], labels == 1)


def binary_metrics(predicted: NDArray[np.bool_], positive: _Flags, suffix: str) -> Iterator[tuple[str, float]]:
    """Yield precision, recall and F1, which are 0 where their denominator is, as in scikit-learn."""
    hits = float((predicted & positive).sum())
    yield f"precision{suffix}", hits / max(float(predicted.sum()), 1.0)
    yield f"recall{suffix}", hits / max(float(positive.sum()), 1.0)
    yield f"F1{suffix}", 2 * hits / max(float(predicted.sum() + positive.sum()), 1.0)


def area_under_curve(scores: _Array, positive: _Flags) -> float:
    """Return the area under the ROC curve: the share of pairs in which the positive row has the higher score."""
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return float("nan")
    return float((_ranks(scores)[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _ranks(values: _Array) -> _Array:
    """Return the ranks from 1, the mean rank for equal values."""
    # The import of scipy.stats would stop the user's loop for about half a second.
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], np.float64)


def count_correct(scores: _Array, labels: _Array) -> Iterator[int]:
    """Yield the number of labels that equal the prediction, for each way to read one from the scores."""
    for axis in range(1, scores.ndim):
        if scores.shape[axis] > 1 and scores.size == labels.size * scores.shape[axis]:
            predicted = scores.argmax(axis)
            if predicted.shape == labels.shape:
                yield int((predicted == labels).sum())
    if scores.size == labels.size:
        flat, is_positive = scores.ravel(), labels.ravel() > 0.5
        yield from (int(((flat > threshold) == is_positive).sum()) for threshold in (0.0, 0.5))
