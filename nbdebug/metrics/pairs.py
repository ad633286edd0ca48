"""Which classes are taken for which, the most often first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.intervals import wilson


@dataclass(frozen=True)
class Pair:
    """One cell beside the diagonal: ``count`` rows of class ``target`` were taken for ``prediction``.

    ``share`` is of the rows of ``target``, with its interval; ``back`` counts the rows that went the other way.
    """

    target: int
    prediction: int
    count: int
    share: float
    low: float
    high: float
    back: int


def confused_pairs(matrix: Counts, most: int = 20) -> list[Pair]:
    """The cells beside the diagonal with the most rows; of equal ones the earlier."""
    beside = matrix.copy()
    np.fill_diagonal(beside, 0)
    rows, columns = np.nonzero(beside)
    order = np.argsort(-beside[rows, columns], kind="stable")[:most]
    return [pair(matrix, int(rows[at]), int(columns[at])) for at in order]


def pair(matrix: Counts, target: int, prediction: int) -> Pair:
    """One cell with its share."""
    count, rows = int(matrix[target, prediction]), int(matrix[target].sum())
    low, high = wilson(count, rows)
    return Pair(target, prediction, count, count / rows, float(low), float(high), int(matrix[prediction, target]))


def by_similarity(matrix: Counts) -> list[int]:
    """An order of the classes that puts those which are often confused beside each other.

    The leaves of a hierarchical clustering by mean distance, ordered so that neighbors are near (Bar-Joseph et al.
    2001, doi:10.1093/bioinformatics/17.suppl_1.s22); the distance of two classes is one less the share of their rows
    that went to the other.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(matrix) < 3:
        return list(range(len(matrix)))
    rows = np.maximum(matrix.sum(1), 1)
    near = (matrix + matrix.T) / (rows[:, None] + rows[None, :])
    distance = 1 - near / max(float((near - np.diag(np.diag(near))).max()), 1e-12)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(np.maximum(distance, 0), checks=False), "average", optimal_ordering=len(matrix) <= 300)
    return [int(one) for one in leaves_list(tree)]
