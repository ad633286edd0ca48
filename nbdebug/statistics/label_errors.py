"""Confident learning: rows whose given class is contradicted by predictions that did not see it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MIN_ROWS_PER_CLASS = 3
_MIN_CONTRADICTED = 10
_MIN_SHARE_LEARNED = 0.35  # of the balanced errors of a constant class that the predictions avoid
_MIN_MARGIN, _MIN_BINARY_MARGIN = 0.3, 0.5
# Of two classes, which leave no trace of the given one.
_MAX_BINARY_HARDNESS, _MIN_BINARY_ERROR_SHARE = 0.6, 0.5
_MIN_SUPPORT = 0.8  # measured: 0.92 to 1.17 for labels that are wrong, up to 0.68 for errors of one learner
_UNIFORM_DEVIATION = 12**-0.5  # standard deviation of a rank that is uniform between 0 and 1


@dataclass(frozen=True)
class ContradictedLabels:
    """Rows whose given class is contradicted, the most confident contradiction first, and how these rows look.

    ``predicted`` are the classes predicted instead, ``margin`` is the mean lead of the predicted class. The next two
    are probabilities, with their standard error ``error``. ``hardness`` is the probability that a row that agrees with
    its prediction is predicted with a larger margin than a contradicted one of the same predicted class. ``trace`` is
    the probability that a contradicted row's given class gets a higher probability for this row than for one that
    agrees with the same prediction; NaN for two classes, where it says the same as ``hardness``. Both are one half if
    the labels are wrong independently of the inputs, also if all wrong labels are of one class, and larger if the
    inputs are ambiguous. ``balanced_accuracy`` is the mean over the classes of the share that is predicted right.
    """

    rows: NDArray[np.int64]
    predicted: NDArray[np.int64]
    margin: float
    hardness: float
    trace: float
    error: float
    balanced_accuracy: float


def find_contradicted_labels(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> ContradictedLabels:
    """Find the rows with another class above its usual probability.

    The usual probability of a class is the mean over the rows that are given it (Northcutt, Jiang and Chuang 2021,
    Confident Learning: Estimating Uncertainty in Dataset Labels).
    """
    counts = np.bincount(labels, minlength=probabilities.shape[1])
    own = probabilities[np.arange(len(labels)), labels]
    usual = np.where(counts > 0, np.bincount(labels, own, len(counts)) / np.maximum(counts, 1), np.inf)
    confident = np.where(probabilities >= usual, probabilities, 0.0)
    predicted, is_confident = confident.argmax(1), confident.max(1) > 0
    is_contradicted = is_confident & (predicted != labels)
    leading = np.sort(probabilities, 1)
    margin = leading[:, -1] - leading[:, -2]
    rows = np.flatnonzero(is_contradicted)
    rows = rows[np.argsort(own[rows] - probabilities[rows, predicted[rows]], kind="stable")]
    hardness, trace = list[tuple[float, int]](), list[tuple[float, int]]()
    for number in np.unique(predicted[rows]):
        group = rows[predicted[rows] == number]
        agreeing = np.flatnonzero(is_confident & (predicted == labels) & (labels == number))
        hardness += _superiority(margin[agreeing], margin[group])
        for label in np.unique(labels[group]):
            column = probabilities[:, label]
            trace += _superiority(column[group[labels[group] == label]], column[agreeing])
    right = np.bincount(labels, probabilities.argmax(1) == labels, len(counts))
    return ContradictedLabels(
        rows,
        predicted[rows],
        float(margin[rows].mean()) if len(rows) else 0.0,
        _weighted_mean(hardness),
        _weighted_mean(trace) if len(counts) > 2 else float("nan"),
        _UNIFORM_DEVIATION / max(len(rows), 1) ** 0.5,
        float((right[counts > 0] / counts[counts > 0]).mean()),
    )


def look_like_wrong_labels(
    contradicted: ContradictedLabels,
    labels: NDArray[np.int64],
    score: float,
    share: float = 0.02,
    ambiguous: float = 0.65,
) -> bool:
    """Return whether contradicted labels are many, confident and unrelated to the inputs; rule D111 describes how.

    ``score`` is the accuracy of the predictions on all ``labels``; ``share`` of them must be contradicted, and
    ``ambiguous`` is the upper bound of ``hardness`` and ``trace``.
    """
    total = len(labels)
    guess = 1 / len(np.unique(labels))
    if contradicted.balanced_accuracy - guess < _MIN_SHARE_LEARNED * (1 - guess):
        return False
    is_binary = contradicted.trace != contradicted.trace
    if len(contradicted.rows) < max(_MIN_CONTRADICTED, share * total):
        return False
    if contradicted.margin < (_MIN_BINARY_MARGIN if is_binary else _MIN_MARGIN):
        return False
    hardness = contradicted.hardness + contradicted.error
    if is_binary:
        errors = (1 - score) * total
        return hardness < _MAX_BINARY_HARDNESS and len(contradicted.rows) > _MIN_BINARY_ERROR_SHARE * errors
    return hardness < ambiguous and contradicted.trace + contradicted.error < ambiguous


def is_supported(
    contradicted: ContradictedLabels,
    labels: NDArray[np.int64],
    predicted: NDArray[np.int64],
    second: NDArray[np.int64],
) -> bool:
    """Return whether a second learner of another kind contradicts the labels of the contradicted rows too.

    ``predicted`` and ``second`` are the classes that the two learners predict for each row without its label. If labels
    are wrong independently of the inputs, these rows are as easy as those whose label the first learner predicts: the
    second one predicts the same class for as large a share of them. It rather predicts the given class if the first
    learner is wrong where the inputs have a form that it cannot represent.
    """
    is_agreeing = predicted == labels
    is_agreeing[contradicted.rows] = False
    shares, expected = np.zeros(len(contradicted.rows)), np.zeros(len(contradicted.rows))
    for number in np.unique(contradicted.predicted):
        rows = contradicted.predicted == number
        agreeing = second[is_agreeing & (labels == number)]
        if len(agreeing):
            shares[rows] = second[contradicted.rows[rows]] == number
            expected[rows] = float((agreeing == number).mean())
    return float(shares.sum()) >= _MIN_SUPPORT * float(expected.sum())


def _superiority(first: NDArray[np.float64], second: NDArray[np.float64]) -> list[tuple[float, int]]:
    """Return the probability that a value of the first sample exceeds one of the second, with its weight.

    Ties count one half. The weight is the size of the smaller sample; the list is empty if a sample is too small.
    """
    if min(len(first), len(second)) < _MIN_ROWS_PER_CLASS:
        return []
    ordered = np.sort(second)
    below, not_above = np.searchsorted(ordered, first, "left"), np.searchsorted(ordered, first, "right")
    return [(float((below + not_above).mean() / (2 * len(second))), min(len(first), len(second)))]


def _weighted_mean(pairs: list[tuple[float, int]]) -> float:
    return (
        sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs) if pairs else float("nan")
    )
