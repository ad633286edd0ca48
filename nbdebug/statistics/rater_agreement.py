"""Agreement of several raters, their error rates, and the class that they agree on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_ITERATIONS, _TOLERANCE, _PSEUDO_COUNT = 100, 1e-6, 0.1


@dataclass(frozen=True, eq=False)
class _RaterModel:
    """``probabilities`` of each class for each row; ``confusion`` has the shape (raters, correct class, rating).

    ``accuracy`` is the expected share of correct ratings of each rater.
    """

    probabilities: _Floats
    confusion: _Floats
    accuracy: _Floats


def krippendorff_alpha(ratings: _Ints, classes: int) -> float:
    """Return the agreement of raters on unordered classes: 1 for perfect agreement, 0 for chance; NaN if undefined.

    ``ratings`` has the shape (rows, raters) with -1 for a missing rating. Source: Krippendorff 2011, Computing
    Krippendorff's Alpha-Reliability.
    """
    counts = _count_ratings(ratings, classes)
    counts = counts[counts.sum(1) > 1]
    sizes = counts.sum(1, keepdims=True)
    if not len(counts):
        return float("nan")
    coincidences = ((counts.T / (sizes.T - 1)) @ counts) - np.diag((counts / (sizes - 1)).sum(0))
    totals = coincidences.sum(0)
    total = totals.sum()
    expected = total**2 - (totals**2).sum()
    if expected <= 0:
        return float("nan")
    return float(1 - (total - 1) * (total - np.trace(coincidences)) / expected)


def fit_rater_model(ratings: _Ints, classes: int) -> _RaterModel:
    """Fit the error rates of the raters and the class of each row by expectation maximization, from a majority vote.

    ``ratings`` has the shape (rows, raters) with -1 for a missing rating. Source: Dawid and Skene 1979, Maximum
    Likelihood Estimation of Observer Error-Rates Using the EM Algorithm, doi:10.2307/2346806.
    """
    rated = np.stack([ratings == label for label in range(classes)], 2).astype(np.float64)
    votes = rated.sum(1)
    probabilities = votes / np.maximum(votes.sum(1, keepdims=True), 1)
    confusion = np.zeros((ratings.shape[1], classes, classes))
    for _ in range(_ITERATIONS):
        counts = np.einsum("nc,nrk->rck", probabilities, rated) + _PSEUDO_COUNT * (1 + 9 * np.eye(classes))
        confusion = counts / counts.sum(2, keepdims=True)
        shares = (probabilities.sum(0) + _PSEUDO_COUNT) / (probabilities.sum() + classes * _PSEUDO_COUNT)
        logarithms = np.log(shares) + np.einsum("nrk,rck->nc", rated, np.log(confusion))
        updated = np.exp(logarithms - logarithms.max(1, keepdims=True))
        updated /= updated.sum(1, keepdims=True)
        change = float(np.abs(updated - probabilities).max())
        probabilities = updated
        if change < _TOLERANCE:
            break
    correct = np.einsum("nc,nrc->r", probabilities, rated)
    return _RaterModel(probabilities, confusion, correct / np.maximum(rated.sum((0, 2)), 1))


def _count_ratings(ratings: _Ints, classes: int) -> _Floats:
    """Return how many raters chose each class, for each row."""
    return np.stack([(ratings == label).sum(1) for label in range(classes)], 1).astype(np.float64)
