"""Regression metrics with intervals, patterns in residuals, and 2-d binning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import Floats, Number, number_from_influence

_PATTERN_ROWS = 200_000  # rows in which patterns are searched
_DECILES, _SIGNIFICANCE = 10, 1e-3
_MIN_MONOTONE_CORRELATION = (
    0.8  # the minimum correlation of decile means with decile rank for a trend that rises or falls
)
_MIN_EXPLAINED_SHARE, _MIN_SPREAD_RATIO = (
    0.05,
    1.5,
)  # minimum explained share of variance and minimum ratio of spreads to be reported
_RowIndices = NDArray[np.int64]
_GRID_SHAPE = (80, 60)  # along x, along y
_MAX_OUTLIERS, _QUANTILE_ROWS, _TREND_GROUPS = 500, 200_000, 20
_ROWS_PER_CHUNK = 1 << 20
_INNER_QUANTILES, _AXIS_MARGIN = (
    (0.002, 0.998),
    0.5,
)  # quantiles that are always inside the grid, and the margin relative to their range


def residual_metrics(target: Any, prediction: Any) -> dict[str, Number]:
    """Return ``rmse``, ``mae``, ``r2`` and ``bias`` (prediction minus target) of one output.

    Rows with a non-finite value are left out. R² is NaN if all targets are equal.
    """
    target, prediction = np.asarray(target, np.float64), np.asarray(prediction, np.float64)
    is_finite = np.isfinite(target) & np.isfinite(prediction)
    target, prediction = target[is_finite], prediction[is_finite]
    if not len(target):
        undefined = Number(float("nan"), float("nan"), float("nan"))
        return dict.fromkeys(("rmse", "mae", "r2", "bias"), undefined)
    residuals = prediction - target
    squares, sizes = residuals**2, np.abs(residuals)
    mse = number_from_influence(float(np.average(squares)), squares - squares.mean())
    rmse = Number(float(np.sqrt(mse.value)), float(np.sqrt(max(mse.low, 0.0))), float(np.sqrt(mse.high)))
    mae = number_from_influence(float(np.average(sizes)), sizes - sizes.mean())
    return {
        "rmse": rmse,
        "mae": mae,
        "r2": _r_squared(target, squares),
        "bias": number_from_influence(float(residuals.mean()), residuals),
    }


def _r_squared(target: Floats, squares: Floats) -> Number:
    """Return the explained share of the target's variance, with a delta-method interval."""
    squared_deviations = (target - np.average(target)) ** 2
    total = float(squared_deviations.sum())
    if not total:
        return Number(float("nan"), float("nan"), float("nan"))
    unexplained = float(squares.sum()) / total
    interval = number_from_influence(
        1 - unexplained, (squares - unexplained * squared_deviations) / squared_deviations.mean()
    )
    return Number(interval.value, interval.low, min(interval.high, 1.0))


def residual_pattern(x: Any, residual: Any, name: str) -> str:
    """Describe in a sentence how residuals change with a variable: rise, fall, bend or spread, by deciles."""
    x, residual = np.asarray(x, np.float64), np.asarray(residual, np.float64)
    rows = np.flatnonzero(np.isfinite(x) & np.isfinite(residual))
    rows = rows[:: max(1, len(rows) // _PATTERN_ROWS)]
    if len(rows) < 10 * _DECILES or np.ptp(x[rows]) == 0:
        return f"Too few distinct values of {name} to detect a pattern in the residuals."
    rows = rows[np.argsort(x[rows], kind="stable")]
    parts = np.array_split(residual[rows], _DECILES)
    sentences = [
        sentence for sentence in (_mean_pattern(parts, name), _spread_pattern(parts, x[rows], name)) if sentence
    ]
    return " ".join(sentences) or f"Residuals show no trend with {name} and no change of spread."


def _mean_pattern(parts: list[Floats], name: str) -> str:
    """Describe how the mean residual changes over the deciles (one-way analysis of variance); "" if it does not."""
    from scipy.stats import f_oneway

    residuals, means = np.concatenate(parts), [float(part.mean()) for part in parts]
    between = sum(len(part) * (mean - residuals.mean()) ** 2 for part, mean in zip(parts, means, strict=True))
    total = float(((residuals - residuals.mean()) ** 2).sum())
    if not total or between / total < _MIN_EXPLAINED_SHARE or not float(f_oneway(*parts).pvalue) < _SIGNIFICANCE:
        return ""
    correlation = float(np.corrcoef(np.arange(_DECILES), means)[0, 1])
    verb = "bend" if abs(correlation) < _MIN_MONOTONE_CORRELATION else "rise" if correlation > 0 else "fall"
    return (
        f"Residuals {verb} with {name}: mean {means[0]:.3g} in the lowest tenth, "
        f"{means[_DECILES // 2]:.3g} in the middle, {means[-1]:.3g} in the highest tenth."
    )


def _spread_pattern(parts: list[Floats], x: Floats, name: str) -> str:
    """Describe how the spread of the residuals changes over the deciles; "" if it does not.

    Uses the rank correlation of their absolute distance from the decile median (Brown and Forsythe 1974,
    doi:10.1080/01621459.1974.10482955).
    """
    from scipy.stats import spearmanr

    distances = [np.abs(part - np.median(part)) for part in parts]
    first, last = float(distances[0].mean()), float(distances[-1].mean())
    low, high = min(first, last), max(first, last)
    if (
        high < _MIN_SPREAD_RATIO * low
        or not high
        or not float(spearmanr(x, np.concatenate(distances)).pvalue) < _SIGNIFICANCE
    ):
        return ""
    comparison = f"{high / low:.1f} times as wide" if low else "wide"
    ends = ("highest", "lowest") if last > first else ("lowest", "highest")
    return (
        f"Residuals spread {comparison} in the {ends[0]} tenth of {name} as in the {ends[1]} tenth (heteroscedastic)."
    )


@dataclass(frozen=True)
class _BinnedTrend:
    """Mean of y in consecutive groups of rows sorted by x, with the 10% and 90% quantiles."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Histogram2D:
    """Row counts in a grid (x bins, y bins) between the limits of two axes, and the outermost rows.

    ``outliers`` holds all rows if there are few. ``rows`` counts the rows with both values, ``outside`` those outside
    the grid.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    counts: NDArray[np.int64]
    outliers: _RowIndices
    trend: _BinnedTrend
    rows: int
    outside: int


def histogram_2d(x: Any, y: Any) -> Histogram2D | None:
    """Bin two columns; return None if no row has both values."""
    has_both = np.isfinite(x) & np.isfinite(y)
    rows = int(has_both.sum())
    if not rows:
        return None
    all_rows = np.flatnonzero(has_both)
    row_sample = all_rows[:: max(1, rows // _QUANTILE_ROWS)]
    limits = [_axis_limits(values, all_rows, row_sample) for values in (x, y)]
    counts = np.zeros(_GRID_SHAPE[0] * _GRID_SHAPE[1], np.int64)
    for start in range(0, rows, _ROWS_PER_CHUNK):
        counts += _grid_counts(x, y, all_rows[start : start + _ROWS_PER_CHUNK], limits)
    outliers = all_rows if rows <= _MAX_OUTLIERS else _outermost_rows(x, y, all_rows)
    trend_line = _binned_trend(np.asarray(x[row_sample], np.float64), np.asarray(y[row_sample], np.float64))
    return Histogram2D(
        limits[0], limits[1], counts.reshape(_GRID_SHAPE), outliers, trend_line, rows, rows - int(counts.sum())
    )


def _axis_limits(values: Any, all_rows: _RowIndices, row_sample: _RowIndices) -> tuple[float, float]:
    """Return the limits of an axis; outliers are excluded, with a margin around the other values."""
    finite = values if len(all_rows) == len(values) else values[all_rows]
    low, high = float(finite.min()), float(finite.max())
    inner_low, inner_high = (
        float(quantile) for quantile in np.quantile(np.asarray(values[row_sample], np.float64), _INNER_QUANTILES)
    )
    margin = _AXIS_MARGIN * (inner_high - inner_low)
    if margin:
        low, high = max(low, inner_low - margin), min(high, inner_high + margin)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _grid_counts(x: Any, y: Any, rows: _RowIndices, limits: list[tuple[float, float]]) -> NDArray[np.int64]:
    bins = []
    inside = np.ones(len(rows), bool)
    for values, (low, high), count in zip((x, y), limits, _GRID_SHAPE, strict=True):
        chunk = np.asarray(values[rows], np.float64)
        inside &= (chunk >= low) & (chunk <= high)
        bins.append(np.clip((chunk - low) * (count / (high - low)), 0, count - 1).astype(np.int64))
    return np.bincount((bins[0] * _GRID_SHAPE[1] + bins[1])[inside], minlength=_GRID_SHAPE[0] * _GRID_SHAPE[1])


def _outermost_rows(x: Any, y: Any, all_rows: _RowIndices) -> _RowIndices:
    """Return the rows farthest from the median of y, and the rows at both ends of x."""
    y_values, x_values = np.asarray(y[all_rows], np.float64), np.asarray(x[all_rows], np.float64)
    keys = (np.abs(y_values - np.median(y_values[:: max(1, len(y_values) // _QUANTILE_ROWS)])), x_values, -x_values)
    indices = [
        np.argpartition(key, -count)[-count:]
        for key, count in zip(keys, (_MAX_OUTLIERS // 2, _MAX_OUTLIERS // 4, _MAX_OUTLIERS // 4), strict=True)
    ]
    return all_rows[np.unique(np.concatenate(indices))]


def _binned_trend(x: Floats, y: Floats) -> _BinnedTrend:
    """Summarize y in groups along x; each distinct x is its own group if there are few."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    changes = np.flatnonzero(np.diff(x)) + 1
    if len(changes) < _TREND_GROUPS:
        groups = np.split(np.arange(len(x)), changes)
    else:
        groups = np.array_split(np.arange(len(x)), min(_TREND_GROUPS, max(1, len(x) // 10)))
    quantiles = [np.quantile(y[group], (0.1, 0.9)) for group in groups]
    means = [(x[group].mean(), y[group].mean()) for group in groups]
    return _BinnedTrend(
        *np.array([(*mean, *quantile_pair) for mean, quantile_pair in zip(means, quantiles, strict=True)]).T
    )
