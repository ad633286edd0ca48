"""One measure of features at several points, and its change by samples in pairs or apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbdebug.tools.importance.statistics import Estimates, discoveries, estimates, jackknife, quantile, ranks_agree

if TYPE_CHECKING:
    from nbdebug.tools.importance.result import Importance

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """One number a feature at each point, points × features with the ends of its intervals, and the change.

    ``change`` is from the first point to the last, ``told`` which changed beyond chance (Benjamini and Hochberg, at
    most a twentieth of them false), ``ranks`` Spearman's correlation of the first and the last point.
    """

    value: Floats
    low: Floats
    high: Floats
    change: Estimates
    told: NDArray[np.bool_]
    ranks: float


def matched(
    one: Importance, other: Importance, mine: Sequence[int], theirs: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Which rows of both are the same samples, with the same values; None where they are fewer than nine of ten."""
    if one.keys is None or other.keys is None:
        if not np.array_equal(one.inputs[:, mine], other.inputs[:, theirs]):
            return None
        rows = np.arange(len(one))
        return rows, rows
    _, first, second = np.intersect1d(one.keys, other.keys, return_indices=True)
    same = (one.inputs[first][:, mine] == other.inputs[second][:, theirs]).all(1)
    enough = 0.9 * max(len(one), len(other))
    return (first[same], second[same]) if same.sum() >= max(enough, 2) else None


Rows = tuple[NDArray[np.int64], NDArray[np.int64]] | None


def measure(name: str, found: Sequence[Importance], columns: Sequence[Sequence[int]], rows: Rows) -> Measure:
    """One measure of all points."""
    points = [point(name, one, mine) for one, mine in zip(found, columns, strict=True)]
    each = [
        lost(one, mine) if name == "drop" else estimates(value, influence, jackknife(parts), groups(parts))
        for one, mine, (value, influence, parts) in zip(found, columns, points, strict=True)
    ]
    change = difference(points[0], points[-1], rows, found[0].ground == found[-1].ground)
    value, low, high = (np.stack([getattr(one, end) for one in each]) for end in ("value", "low", "high"))
    return Measure(value, low, high, change, discoveries(change.p), ranks_agree(value[0], value[-1]))


def lost(one: Importance, columns: Sequence[int]) -> Estimates:
    """What the metric loses by some of the features."""
    return Estimates(*(getattr(one.lost, end)[columns] for end in ("value", "low", "high", "p")))


Point = tuple[
    Floats, Floats, "Floats | None"
]  # numbers, what each sample adds, numbers without parts of the background


def point(name: str, one: Importance, columns: Sequence[int]) -> Point:
    """One measure of some features at one point."""
    if name == "drop":
        return one.drop[columns], one.influence[:, columns], None
    values, parts = np.abs(one.known_attributions)[:, columns], one.left_out
    parts = None if parts is None else parts[:, columns]
    mean = values.mean(0)
    if name == "size":
        return mean, values - mean, parts
    total = mean.sum()
    influence = (values - mean - (values.sum(1, keepdims=True) - total) * (mean / total)) / total
    return mean / total, influence, None if parts is None else parts / parts.sum(1, keepdims=True)


def groups(parts: Floats | None) -> int:
    """How many parts the background was in."""
    return 0 if parts is None else len(parts)


def difference(one: Point, other: Point, rows: Rows, same_ground: bool) -> Estimates:
    """The last less the first: by pairs of samples and of parts of the background where these are the same.

    Else by the sum of both variances (Welch 1947, doi:10.1093/biomet/34.1-2.28).
    """
    change = other[0] - one[0]
    error, count = ground_error(one[2], other[2], same_ground)
    complete = rows is not None and all(len(rows[i]) and rows[i].max() < len(p[1]) for i, p in enumerate((one, other)))
    if rows is not None and complete:
        return estimates(change, other[1][rows[1]] - one[1][rows[0]], error, count)
    return welch(change, one[1], other[1], error, count)


def ground_error(one: Floats | None, other: Floats | None, same: bool) -> tuple[Floats | None, int]:
    """What the background adds to the standard error of a difference."""
    if one is None or other is None:
        return jackknife(one if other is None else other), groups(one if other is None else other)
    if same and len(one) == len(other):
        return jackknife(other - one), len(one)
    first, second = jackknife(one), jackknife(other)
    assert first is not None
    assert second is not None
    return np.hypot(first, second), min(len(one), len(other))


def welch(change: Floats, one: Floats, other: Floats, more: Floats | None, count: int) -> Estimates:
    """The interval of a difference of two samples."""
    from scipy.stats import t

    if min(len(one), len(other)) < 2:
        none = np.full(len(change), np.nan)
        return Estimates(change, none, none, none)
    parts = [each.var(0, ddof=1) / len(each) for each in (one, other)]
    error = np.sqrt(parts[0] + parts[1])
    freedom = min(len(one), len(other)) - 1
    half = quantile(freedom) * error
    if more is not None and count > 1:
        half, error = np.hypot(half, quantile(count - 1) * more), np.hypot(error, more)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error > 0, np.abs(change) / error, np.where(change == 0, 0.0, np.inf))
    return Estimates(change, change - half, change + half, np.where(np.isnan(change), np.nan, 2 * t.sf(ratio, freedom)))
