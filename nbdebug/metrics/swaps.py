"""Pairs of classes that are taken for each other, both ways, more often than their rates of error would give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.confusion import Counts


@dataclass(frozen=True)
class Swap:
    """Two classes, how often each is taken for the other, how often that is expected, and how likely so many are."""

    one: int
    other: int
    there: int
    back: int
    expected: tuple[float, float]
    p: float


def expected_errors(matrix: Counts) -> NDArray[np.float64]:
    """The errors that there would be in each cell, did those of each class spread over the others by their sizes."""
    support = matrix.sum(1).astype(np.float64)
    errors = support - np.diag(matrix)
    others = np.maximum(support.sum() - support, 1)
    expected = errors[:, None] * support[None, :] / others[:, None]
    np.fill_diagonal(expected, 0)
    return np.asarray(expected)


def swaps(matrix: Counts) -> list[Swap]:
    """All pairs that were taken for each other both ways, the least likely first.

    ``p`` is the chance of so many errors or more (Poisson) that is the larger one of both ways: a class that takes in
    the errors of all others is no pair with any of them.
    """
    from scipy.stats import poisson

    expected = expected_errors(matrix)
    with np.errstate(invalid="ignore"):
        chance = np.where(matrix > 0, poisson.sf(matrix - 1, np.maximum(expected, 1e-9)), 1.0)
    worst = np.maximum(chance, chance.T)
    found = []
    for a, b in np.argwhere(np.triu((matrix > 0) & (matrix.T > 0), 1)):
        i, j = int(a), int(b)
        both = float(expected[i, j]), float(expected[j, i])
        found.append(Swap(i, j, int(matrix[i, j]), int(matrix[j, i]), both, float(worst[i, j])))
    return sorted(found, key=lambda one: one.p)
