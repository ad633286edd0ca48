"""Confusion matrix, per-class and overall classification metrics, and confused classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, Floats, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas

Counts = NDArray[np.int64]
ROWS_PER_CHUNK = 1 << 18  # the temporary arrays of so many rows fit into the processor cache


def confusion_matrix(target: NDArray[Any], prediction: NDArray[Any], classes: int) -> Counts:
    """Return the confusion matrix, shape (classes, classes): rows are targets, columns are predictions.

    Both arrays hold integers from 0 to ``classes`` - 1; rows in which either is negative are not counted.
    """
    cells = classes * classes
    chunk = max(ROWS_PER_CHUNK, cells)  # adding up all cells once per chunk must not cost more than the chunk itself
    counts = _count_cells(target, prediction, classes, slice(chunk))
    for start in range(chunk, len(target), chunk):
        counts += _count_cells(target, prediction, classes, slice(start, start + chunk))
    return counts.reshape(classes, classes)


def _count_cells(target: NDArray[Any], prediction: NDArray[Any], classes: int, rows: slice) -> Counts:
    cells = classes * classes
    return np.asarray(np.bincount(cell_indices(target, prediction, classes, rows), minlength=cells)[:cells])


def cell_indices(target: NDArray[Any], prediction: NDArray[Any], classes: int, rows: slice) -> NDArray[Any]:
    """Return the row-major cell index of each row; ignored rows get ``classes`` squared."""
    chunk_target, chunk_prediction = target[rows], prediction[rows]
    cells = classes * classes
    dtype: Any = np.int32 if cells < 2**31 else np.int64
    cell = chunk_target.astype(dtype, copy=False) * dtype(classes)
    cell += chunk_prediction.astype(dtype, copy=False)
    if len(chunk_target) and min(int(chunk_target.min()), int(chunk_prediction.min())) < 0:
        cell[(chunk_target < 0) | (chunk_prediction < 0)] = cells
    return np.asarray(cell)


@dataclass(frozen=True)
class ClassProportions:
    """A proportion for each class with its interval; NaN for classes without trials."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class PerClassMetrics:
    """Metrics of each class of a confusion matrix.

    ``support`` counts the rows whose target is the class, ``predicted`` those predicted as it.
    """

    precision: ClassProportions
    recall: ClassProportions
    f1: ClassProportions
    support: Counts
    predicted: Counts

    def to_frame(self, names: Sequence[str]) -> pandas.DataFrame:
        """Return one row per class: each metric with the ends of its interval, and the counts."""
        import pandas as pd

        columns: dict[str, Floats | Counts] = {}
        for name in ("precision", "recall", "f1"):
            metric: ClassProportions = getattr(self, name)
            columns |= {name: metric.value, f"{name}_low": metric.low, f"{name}_high": metric.high}
        columns |= {"support": self.support, "predicted": self.predicted}
        return pd.DataFrame(columns, index=pd.Index(list(names), name="class"))


def per_class_metrics(matrix: Counts, level: float = CONFIDENCE_LEVEL) -> PerClassMetrics:
    """Return precision, recall and F1 from counts, shape (targets, predictions).

    F1 is a monotone function of the Jaccard index, so the interval of the Jaccard index is transformed.
    """
    hits, support, predicted = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    jaccard = class_proportions(hits, support + predicted - hits, level)
    f1 = ClassProportions(*(2 * values / (1 + values) for values in (jaccard.value, jaccard.low, jaccard.high)))
    return PerClassMetrics(
        class_proportions(hits, predicted, level), class_proportions(hits, support, level), f1, support, predicted
    )


def class_proportions(hits: Counts, trials: Counts, level: float) -> ClassProportions:
    """Return hits / trials per class with Wilson intervals; NaN where there are no trials."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return ClassProportions(hits / trials, *wilson_interval(hits, trials, level))


def accuracy(matrix: Counts) -> float:
    """Return the share of correct rows; NaN if there are no rows."""
    total = int(matrix.sum())
    return float(np.trace(matrix)) / total if total else float("nan")


def balanced_accuracy(matrix: Counts) -> float:
    """Return the mean recall of the classes that have rows."""
    recall = per_class_metrics(matrix).recall.value
    return float(np.nanmean(recall)) if np.isfinite(recall).any() else float("nan")


def f1_score(matrix: Counts, average: str = "macro") -> float:
    """Return the mean F1 of the classes that occur: unweighted ("macro") or weighted by support ("weighted").

    A class that is never predicted, or never predicted correctly, has an F1 of 0.
    """
    metrics = per_class_metrics(matrix)
    occurs = (metrics.support + metrics.predicted) > 0
    values = np.nan_to_num(metrics.f1.value)[occurs]
    weights = metrics.support[occurs] if average == "weighted" else np.ones(len(values))
    return float(np.average(values, weights=weights)) if weights.sum() else float("nan")


def matthews_correlation(matrix: Counts) -> float:
    """Return the Matthews correlation coefficient; 0 if targets or predictions are constant.

    Gorodkin 2004, doi:10.1016/j.compbiolchem.2004.09.006.
    """
    support, predicted = matrix.sum(1).astype(float), matrix.sum(0).astype(float)
    correct, total = float(np.trace(matrix)), float(matrix.sum())
    covariance = correct * total - predicted @ support
    variance_product = (total**2 - predicted @ predicted) * (total**2 - support @ support)
    return covariance / float(np.sqrt(variance_product)) if variance_product else 0.0


def cohen_kappa(matrix: Counts) -> float:
    """Return Cohen's kappa, the accuracy beyond chance agreement; NaN if chance agreement is 1.

    Cohen 1960, doi:10.1177/001316446002000104.
    """
    total = float(matrix.sum())
    if not total:
        return float("nan")
    chance = float(matrix.sum(1) @ matrix.sum(0)) / total**2
    return (accuracy(matrix) - chance) / (1 - chance) if chance < 1 else float("nan")


@dataclass(frozen=True)
class _ConfusedPair:
    """An off-diagonal cell: ``count`` rows of class ``target`` were predicted as ``prediction``.

    ``share`` is relative to all rows of ``target``, with its interval; ``back`` counts the reverse confusion.
    """

    target: int
    prediction: int
    count: int
    share: float
    low: float
    high: float
    back: int


def confused_pairs(matrix: Counts, limit: int = 20) -> list[_ConfusedPair]:
    """Return the off-diagonal cells with the most rows; ties keep matrix order."""
    off_diagonal = matrix.copy()
    np.fill_diagonal(off_diagonal, 0)
    rows, columns = np.nonzero(off_diagonal)
    order = np.argsort(-off_diagonal[rows, columns], kind="stable")[:limit]
    return [_get_confused_pair(matrix, int(rows[index]), int(columns[index])) for index in order]


def _get_confused_pair(matrix: Counts, target: int, prediction: int) -> _ConfusedPair:
    count, rows = int(matrix[target, prediction]), int(matrix[target].sum())
    low, high = wilson_interval(count, rows)
    return _ConfusedPair(
        target, prediction, count, count / rows, float(low), float(high), int(matrix[prediction, target])
    )


def order_by_confusion(matrix: Counts) -> list[int]:
    """Order the classes so that those often confused are next to each other.

    The leaves of an average-linkage clustering in optimal order (Bar-Joseph et al. 2001,
    doi:10.1093/bioinformatics/17.suppl_1.s22). The distance of two classes decreases with the share of their rows that
    are confused with each other.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(matrix) < 3:
        return list(range(len(matrix)))
    rows = np.maximum(matrix.sum(1), 1)
    similarity = (matrix + matrix.T) / (rows[:, None] + rows[None, :])
    distance = 1 - similarity / max(float((similarity - np.diag(np.diag(similarity))).max()), 1e-12)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(np.maximum(distance, 0), checks=False), "average", optimal_ordering=len(matrix) <= 300)
    return [int(leaf) for leaf in leaves_list(tree)]


@dataclass(frozen=True)
class MutualConfusion:
    """Two classes, the confusion counts in both directions, the expected counts, and the p-value."""

    first: int
    second: int
    forward: int
    backward: int
    expected: tuple[float, float]
    p: float


def _expected_confusions(matrix: Counts) -> NDArray[np.float64]:
    """Return the expected count of each cell if the errors of a class were spread in proportion to class sizes."""
    support = matrix.sum(1).astype(np.float64)
    errors = support - np.diag(matrix)
    others = np.maximum(support.sum() - support, 1)
    expected = errors[:, None] * support[None, :] / others[:, None]
    np.fill_diagonal(expected, 0)
    return np.asarray(expected)


def mutual_confusions(matrix: Counts) -> list[MutualConfusion]:
    """Return all pairs confused in both directions, smallest p-value first.

    ``p`` is the larger of the two one-sided Poisson p-values, so a class that absorbs the errors of all others forms no
    pair with them.
    """
    from scipy.stats import poisson

    expected = _expected_confusions(matrix)
    with np.errstate(invalid="ignore"):
        p_values = np.where(matrix > 0, poisson.sf(matrix - 1, np.maximum(expected, 1e-9)), 1.0)
    larger_p = np.maximum(p_values, p_values.T)
    confusions = []
    for a, b in np.argwhere(np.triu((matrix > 0) & (matrix.T > 0), 1)):
        i, j = int(a), int(b)
        expected_counts = float(expected[i, j]), float(expected[j, i])
        confusions.append(
            MutualConfusion(i, j, int(matrix[i, j]), int(matrix[j, i]), expected_counts, float(larger_p[i, j]))
        )
    return sorted(confusions, key=lambda pair: pair.p)
