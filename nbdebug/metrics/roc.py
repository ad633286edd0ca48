"""ROC and precision-recall curves, outcome counts at thresholds, and curve simplification."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, Floats, normal_quantile, wilson_interval

if TYPE_CHECKING:
    import pandas

_ThresholdCounts = NDArray[np.int64]
DEFAULT_THRESHOLD = 0.5
_BOUNDARY_TOLERANCE = 1e-12  # distance from 0 and 1 at which the search for an interval end stops
_PLOT_TOLERANCE = 1e-4  # relative to the width of a plot; not visible on any screen


@dataclass(frozen=True)
class Thresholds:
    """Outcome counts at every distinct probability as a threshold, ascending, plus the default threshold.

    Rows with at least that probability are predicted as the class. ``positives`` and ``negatives`` count the rows of
    the class and the others. ``below`` is the next lower probability, NaN for the lowest.
    """

    values: Floats
    below: Floats
    true_positives: _ThresholdCounts
    false_positives: _ThresholdCounts
    positives: int
    negatives: int
    default: float = DEFAULT_THRESHOLD

    @property
    def precision(self) -> Floats:
        """Return the precision; NaN if nothing is predicted as the class."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.true_positives / (self.true_positives + self.false_positives))

    @property
    def recall(self) -> Floats:
        """Return the recall; NaN if there are no rows of the class."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.true_positives / np.float64(self.positives))

    @property
    def f1(self) -> Floats:
        """Return the harmonic mean of precision and recall."""
        with np.errstate(invalid="ignore"):
            return np.asarray(
                2 * self.true_positives / (self.true_positives + self.false_positives + np.float64(self.positives))
            )

    def cost(self, alarm: float = 1.0, miss: float = 1.0) -> Floats:
        """Return the total cost of errors, given the cost of a false positive and of a false negative."""
        return np.asarray(alarm * self.false_positives + miss * (self.positives - self.true_positives), np.float64)

    def to_frame(self, alarm: float = 1.0, miss: float = 1.0) -> pandas.DataFrame:
        """Return one row per threshold."""
        import pandas as pd

        counts = {
            "tp": self.true_positives,
            "fp": self.false_positives,
            "fn": self.positives - self.true_positives,
            "tn": self.negatives - self.false_positives,
        }
        shares = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return pd.DataFrame({"threshold": self.values, **counts, **shares, "cost": self.cost(alarm, miss)})

    def page_indices(self, limit: int = 200) -> _ThresholdCounts:
        """Return at most ``limit`` indices for a page: even in value and rank, the default, the best by F1."""
        count = len(self.values)
        if count <= limit:
            return np.arange(count)
        ranks = np.linspace(0, count - 1, limit // 2 - 2)
        values = np.searchsorted(self.values, np.linspace(self.values[0], self.values[-1], limit // 2))
        best = [int(np.nanargmax(self.f1))] if np.isfinite(self.f1).any() else []
        default_index = int(np.searchsorted(self.values, self.default))
        return np.unique(np.concatenate([ranks, values, best, [default_index]]).astype(np.int64).clip(0, count - 1))


def sweep_thresholds(
    probability: NDArray[Any], target: NDArray[Any], default: float | None = DEFAULT_THRESHOLD
) -> Thresholds:
    """Count the outcomes at every threshold, including ``default``; ``target`` is true or 1 for rows of the class.

    Probabilities must be finite.
    """
    target, probability = np.asarray(target, bool), np.asarray(probability)
    order = np.argsort(probability, kind="stable")
    sorted_probability, is_positive = probability[order].astype(np.float64), target[order]
    first = np.flatnonzero(
        np.concatenate([np.ones(min(len(sorted_probability), 1), bool), np.diff(sorted_probability) > 0])
    )
    values = sorted_probability[first]
    if default is not None and default not in values:
        position = np.searchsorted(values, default)
        first, values = (
            np.insert(first, position, np.searchsorted(sorted_probability, default)),
            np.insert(values, position, default),
        )
    positives_below = np.concatenate([[0], np.cumsum(is_positive)])[first]
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    below = np.append(np.nan, sorted_probability)[first]
    false_positives = negatives - (first - positives_below)
    return Thresholds(
        values,
        below,
        positives - positives_below,
        false_positives,
        positives,
        negatives,
        DEFAULT_THRESHOLD if default is None else default,
    )


@dataclass(frozen=True)
class Curve:
    """The points (x, y) of a curve, and the area under it with its interval.

    Rows whose probability is at least ``thresholds`` are predicted as the class.
    """

    x: Floats
    y: Floats
    thresholds: Floats
    area: float
    low: float
    high: float

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per point."""
        import pandas as pd

        return pd.DataFrame({"x": self.x, "y": self.y, "threshold": self.thresholds})


@dataclass(frozen=True)
class ClassCurves:
    """Both curves of one class.

    ``positives`` counts its rows out of ``rows``; their ratio is the precision-recall area of a random guess. ``roc``
    is the true-positive rate over the false-positive rate. ``precision_recall`` is precision over recall; its area is
    the average precision.
    """

    roc: Curve
    precision_recall: Curve
    positives: int
    rows: int


def class_curves(
    probability: NDArray[Any], target: NDArray[Any], level: float = CONFIDENCE_LEVEL
) -> ClassCurves | None:
    """Compute both curves; return None if all rows are of the class or none is.

    ``target`` is true or 1 for rows of the class. The points equal those of ``roc_curve`` and
    ``precision_recall_curve`` in scikit-learn, the areas those of ``roc_auc_score`` and ``average_precision_score``.
    scikit-learn itself takes seconds to import and sorts four times.
    """
    sweep = sweep_thresholds(probability, target, default=None)
    if not (sweep.positives and sweep.negatives):
        return None
    return ClassCurves(
        _roc_curve(sweep, level),
        _precision_recall_curve(sweep, level),
        sweep.positives,
        sweep.positives + sweep.negatives,
    )


def _roc_curve(sweep: Thresholds, level: float = CONFIDENCE_LEVEL) -> Curve:
    """Return the true-positive rate over the false-positive rate, and the area under it.

    The interval is that of Newcombe 2006, doi:10.1002/sim.2324, method 5, which has a positive width even for an area
    of 1.
    """
    true_positives, false_positives = (
        np.append(0, sweep.true_positives[::-1]),
        np.append(0, sweep.false_positives[::-1]),
    )
    doubled_area = int((np.diff(false_positives) * (true_positives[1:] + true_positives[:-1])).sum())
    area = doubled_area / (2 * sweep.positives * sweep.negatives)
    low, high = auc_interval(area, sweep.positives, sweep.negatives, level)
    return Curve(
        false_positives / sweep.negatives,
        true_positives / sweep.positives,
        np.append(np.inf, sweep.values[::-1]),
        area,
        low,
        high,
    )


def _precision_recall_curve(sweep: Thresholds, level: float = CONFIDENCE_LEVEL) -> Curve:
    """Return precision over recall, and the average precision.

    The interval treats it as a proportion of the rows of the class (Boyd, Eng and Page 2013,
    doi:10.1007/978-3-642-40994-3_29), by Wilson.
    """
    recall = np.append(0, sweep.recall[::-1])
    precision = np.append(1, sweep.precision[::-1])
    area = float((np.diff(recall) * precision[1:]).sum())
    low, high = wilson_interval(area * sweep.positives, sweep.positives, level)
    return Curve(recall, precision, np.append(np.inf, sweep.values[::-1]), area, float(low), float(high))


def auc_interval(area: float, positives: int, negatives: int, level: float = CONFIDENCE_LEVEL) -> tuple[float, float]:
    """Return the true areas for which the observed area is just within chance, lower and upper.

    The standard error at each of them is that of Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747.
    """
    from scipy.optimize import brentq

    mean_count = (positives + negatives) / 2 - 1

    def excess(true_area: float) -> float:
        variance_factor = 1 + mean_count * ((1 - true_area) / (2 - true_area) + true_area / (1 + true_area))
        return float(
            (area - true_area) ** 2
            - normal_quantile(level) ** 2 * true_area * (1 - true_area) * variance_factor / (positives * negatives)
        )

    low = brentq(excess, 0, min(area, 1 - _BOUNDARY_TOLERANCE)) if area > _BOUNDARY_TOLERANCE else 0.0
    high = brentq(excess, max(area, _BOUNDARY_TOLERANCE), 1) if area < 1 - _BOUNDARY_TOLERANCE else 1.0
    return float(low), float(high)


def simplify_curve(x: Floats, y: Floats, limit: int = 200) -> NDArray[np.int64]:
    """Return the indices of the points to keep of a curve drawn in the unit square, ascending.

    Repeatedly adds the point farthest from the current polyline (Douglas and Peucker 1973,
    doi:10.3138/FM57-6770-U75U-7727), until the limit is reached or all points are close to it.
    """
    last = len(x) - 1
    indices, segments = {0, last}, [_farthest_point(x, y, 0, last)]
    while segments and len(indices) < limit:
        negative, index, first, end = heappop(segments)
        if -negative < _PLOT_TOLERANCE:
            break
        indices.add(index)
        for segment in (_farthest_point(x, y, first, index), _farthest_point(x, y, index, end)):
            heappush(segments, segment)
    return np.array(sorted(indices), np.int64)


def _farthest_point(x: Floats, y: Floats, first: int, last: int) -> tuple[float, int, int, int]:
    """Return minus the largest distance from the chord first-last, the index of that point, and the chord's ends."""
    if last - first < 2:
        return 0.0, first, first, last
    width, height = x[last] - x[first], y[last] - y[first]
    dx, dy = x[first + 1 : last] - x[first], y[first + 1 : last] - y[first]
    length = float(np.hypot(width, height))
    distances = np.abs(dx * height - dy * width) / length if length > 0 else np.hypot(dx, dy)
    index = int(distances.argmax())
    return -float(distances[index]), first + 1 + index, first, last
