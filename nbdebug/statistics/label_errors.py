"""Confident learning: rows whose given class is contradicted by predictions that did not see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MIN_ROWS_PER_CLASS, _PERMUTATIONS = 3, 20
_MIN_CONTRADICTED = 10
_MIN_SHARE_LEARNED = 0.35  # of the errors of the most common class that the predictions avoid
_MIN_MARGIN, _MIN_BINARY_MARGIN = 0.3, 0.5
# Of two classes, which leave no trace of the given one.
_MAX_BINARY_HARDNESS, _MIN_BINARY_ERROR_SHARE = 0.6, 0.5
_UNIFORM_DEVIATION = 12**-0.5  # standard deviation of a rank that is uniform between 0 and 1


@dataclass(frozen=True)
class ContradictedLabels:
    """Rows whose given class is contradicted, the most confident contradiction first, and how these rows look.

    ``predicted`` are the classes predicted instead, ``margin`` is the mean lead of the predicted class. The next two
    are probabilities, with their standard errors. ``hardness`` is the probability that a row that agrees with its
    prediction is predicted with a larger margin than a contradicted one of the same predicted class. ``trace`` is the
    probability that a row's given class gets a higher probability than the given class of another contradicted row
    with the same prediction; NaN for two classes. Both are one half if the labels are wrong independently of the
    inputs, and larger if the inputs are ambiguous.
    """

    rows: NDArray[np.int64]
    predicted: NDArray[np.int64]
    margin: float
    hardness: float
    trace: float
    error: float


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
    groups = [rows[predicted[rows] == number] for number in range(len(counts))]
    agreeing = [
        np.flatnonzero(is_confident & (predicted == labels) & (labels == number)) for number in range(len(counts))
    ]
    pairs = [
        (_superiority(margin[agree], margin[group]), len(group))
        for group, agree in zip(groups, agreeing, strict=True)
        if len(group) >= _MIN_ROWS_PER_CLASS and len(agree)
    ]
    return ContradictedLabels(
        rows,
        predicted[rows],
        float(margin[rows].mean()) if len(rows) else 0.0,
        sum(value * size for value, size in pairs) / sum(size for _, size in pairs) if pairs else float("nan"),
        _trace(probabilities, labels, groups) if len(counts) > 2 else float("nan"),
        _UNIFORM_DEVIATION / max(len(rows), 1) ** 0.5,
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
    if not _has_learned(labels, score):
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


def _has_learned(labels: NDArray[np.int64], score: float) -> bool:
    """Return whether predictions avoid a third of the errors of the most common class."""
    majority = float(np.bincount(labels).max()) / len(labels)
    return score - majority >= _MIN_SHARE_LEARNED * (1 - majority)


def _superiority(first: Any, second: Any) -> float:
    """Return the probability that a value of the first sample exceeds one of the second; ties count one half."""
    ordered = np.sort(second)
    below, not_above = np.searchsorted(ordered, first, "left"), np.searchsorted(ordered, first, "right")
    return float((below + not_above).mean() / (2 * len(second)))


def _trace(probabilities: Any, labels: Any, groups: list[NDArray[np.int64]]) -> float:
    """Compare the probability of the given class with those of the given classes permuted within each prediction."""
    generator, wins = np.random.default_rng(0), list[float]()
    for group in groups:
        if len(group) < _MIN_ROWS_PER_CLASS:
            continue
        for _ in range(_PERMUTATIONS):
            other = labels[generator.permutation(group)]
            differs = other != labels[group]
            difference = probabilities[group, labels[group]] - probabilities[group, other]
            wins += (np.sign(difference[differs]) / 2 + 0.5).tolist()
    return float(np.mean(wins)) if wins else float("nan")
