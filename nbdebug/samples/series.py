"""Series: numbers over time, of one channel or several, as lines of at most 200 points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nbdebug.samples.arrays import Array, as_array
from nbdebug.samples.hints import Hints
from nbdebug.samples.smooth import nearness

POINTS = 200
MOST = {False: 6, True: 32}  # lines
SHORTEST = 16
SMOOTH = 0.5  # of the difference between any two numbers: neighbors in time are nearer than that
FEW = 4  # channels that need not be smooth to be told from the rows of a picture


@dataclass(frozen=True)
class Series:
    """Series with time along ``axis``, in one data set."""

    axis: int
    names: Sequence[str] | None = None

    @classmethod
    def of(cls, values: Sequence[Any], hints: Hints) -> Series | None:
        """Where all are rows of real numbers in a smooth order, or a few such rows."""
        arrays = [one for value in values if (one := as_array(value)) is not None and one.dtype.kind in "fiu"]
        if len(arrays) < len(values) or len({one.ndim for one in arrays}) > 1 or any(one.size == 0 for one in arrays):
            return None
        if max(arrays[0].shape, default=0) < SHORTEST:
            return None
        if arrays[0].ndim == 1:
            if arrays[0].dtype.kind != "f" and arrays[0].dtype.itemsize > 2:  # ids, not measurements
                return None
            return cls(0) if hints.feature_names is None and smooth(arrays, 0) < SMOOTH else None
        axis = time_axis(arrays) if arrays[0].ndim == 2 else None
        if axis is None:
            return None
        names = hints.columns
        return cls(axis, names if names is not None and len(names) == arrays[0].shape[1 - axis] else None)

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """One sample as lines."""
        found = as_array(value)
        assert found is not None
        rows = found[None] if found.ndim == 1 else found if self.axis == 1 else found.T
        names = list(self.names or ([""] if len(rows) == 1 else [f"channel {at}" for at in range(len(rows))]))
        return {"kind": "series", "lines": lines(rows, MOST[full]), "names": names[: MOST[full]]}


def time_axis(arrays: Sequence[Array]) -> int | None:
    """The axis of time in two, None for a picture: the smooth one, else the longer one beside very few channels."""
    if arrays[0].dtype == np.uint8:
        return None
    shape = arrays[0].shape
    longer = int(shape[1] >= shape[0])
    if shape[1 - longer] <= FEW:
        return longer
    if shape[0] == shape[1]:
        return None
    near = [smooth(arrays, 0), smooth(arrays, 1)]
    axis = int(np.argmin(near))
    return axis if near[axis] < SMOOTH and near[1 - axis] > 0.9 else None


def smooth(arrays: Sequence[Array], axis: int) -> float:
    """How near neighbors are along one axis, on average over the samples."""
    return float(np.mean([nearness(one[None], axis + 1) for one in arrays]))


def lines(rows: Array, most: int) -> list[list[float | None]]:
    """At most so many rows, each thinned to its lowest and highest numbers."""
    return [[rounded(one) for one in thinned(row)] for row in rows[:most].astype(np.float64)]


def thinned(row: Array) -> Array:
    """At most 200 numbers: of each stretch its lowest and its highest one, in the order in which they come."""
    if len(row) <= POINTS:
        return row
    edges = np.linspace(0, len(row), POINTS // 2 + 1).astype(int)
    filled = np.nan_to_num(row, nan=float(np.nanmedian(row)) if np.isfinite(row).any() else 0.0)
    out = []
    for start, end in pairwise(edges):
        part = filled[start:end]
        out += sorted((start + int(part.argmin()), start + int(part.argmax())))
    return np.asarray(row[out])


def rounded(value: float) -> float | None:
    """Four digits are enough for a line."""
    return float(f"{value:.4g}") if np.isfinite(value) else None
