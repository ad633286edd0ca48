"""Two columns against each other: counts in boxes, what lies far out, and the trend, small however many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
BOXES = (80, 60)  # across, up
FAR, SOME, PARTS = 500, 200_000, 20
CHUNK = 1 << 20
MIDDLE, AIR = (0.002, 0.998), 0.5  # what surely lies inside, and how far beyond it the boxes go


@dataclass(frozen=True)
class Trend:
    """The mean of parts of the rows in the order of x, and within what eight of ten rows of a part lie."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Binned:
    """Counts of rows, across × up, between the ends of two axes; ``far`` are the rows that lie furthest out.

    All rows are ``far`` where there are few. ``rows`` have both values, of which ``beyond`` lie in no box.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    counts: NDArray[np.int64]
    far: Rows
    trend: Trend
    rows: int
    beyond: int


def binned(x: Any, y: Any) -> Binned | None:
    """Two columns in boxes; None where no row has both values."""
    kept = np.isfinite(x) & np.isfinite(y)
    rows = int(kept.sum())
    if not rows:
        return None
    every = np.flatnonzero(kept)
    some = every[:: max(1, rows // SOME)]
    ends = [axis(values, every, some) for values in (x, y)]
    counts = np.zeros(BOXES[0] * BOXES[1], np.int64)
    for at in range(0, rows, CHUNK):
        counts += boxed(x, y, every[at : at + CHUNK], ends)
    far = every if rows <= FAR else outermost(x, y, every)
    line = trend(np.asarray(x[some], np.float64), np.asarray(y[some], np.float64))
    return Binned(ends[0], ends[1], counts.reshape(BOXES), far, line, rows, rows - int(counts.sum()))


def axis(values: Any, every: Rows, some: Rows) -> tuple[float, float]:
    """The ends of an axis: of all values, or, where a few lie far out, of the others with some air."""
    known = values if len(every) == len(values) else values[every]
    low, high = float(known.min()), float(known.max())
    inner_low, inner_high = (float(one) for one in np.quantile(np.asarray(values[some], np.float64), MIDDLE))
    air = AIR * (inner_high - inner_low)
    if air:
        low, high = max(low, inner_low - air), min(high, inner_high + air)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def boxed(x: Any, y: Any, rows: Rows, ends: list[tuple[float, float]]) -> NDArray[np.int64]:
    """How many of some rows lie in each box."""
    places = []
    inside = np.ones(len(rows), bool)
    for values, (low, high), count in zip((x, y), ends, BOXES, strict=True):
        found = np.asarray(values[rows], np.float64)
        inside &= (found >= low) & (found <= high)
        places.append(np.clip((found - low) * (count / (high - low)), 0, count - 1).astype(np.int64))
    return np.bincount((places[0] * BOXES[1] + places[1])[inside], minlength=BOXES[0] * BOXES[1])


def outermost(x: Any, y: Any, every: Rows) -> Rows:
    """The rows that lie furthest from the middle of y, and those at both ends of x."""
    up, across = np.asarray(y[every], np.float64), np.asarray(x[every], np.float64)
    keys = (np.abs(up - np.median(up[:: max(1, len(up) // SOME)])), across, -across)
    found = [
        np.argpartition(key, -most)[-most:] for key, most in zip(keys, (FAR // 2, FAR // 4, FAR // 4), strict=True)
    ]
    return every[np.unique(np.concatenate(found))]


def trend(x: Floats, y: Floats) -> Trend:
    """The mean of each part of the rows in the order of x; of few different values of x each is a part."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    steps = np.flatnonzero(np.diff(x)) + 1
    if len(steps) < PARTS:
        parts = np.split(np.arange(len(x)), steps)
    else:
        parts = np.array_split(np.arange(len(x)), min(PARTS, max(1, len(x) // 10)))
    ends = [np.quantile(y[part], (0.1, 0.9)) for part in parts]
    means = [(x[part].mean(), y[part].mean()) for part in parts]
    return Trend(*np.array([(*mean, *end) for mean, end in zip(means, ends, strict=True)]).T)
