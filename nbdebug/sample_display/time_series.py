"""Renders time series of one or several channels as lines of at most 200 points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nbdebug.sample_display.arrays import Array, as_array
from nbdebug.sample_display.dataset_hints import DatasetHints

_MAX_POINTS = 200
_MAX_LINES = {False: 6, True: 32}  # lines
_MIN_LENGTH = 16
_MAX_RELATIVE_DISTANCE = 0.5  # distance of neighbors in time, relative to that of random pairs
_MAX_UNCHECKED_CHANNELS = 4  # so few channels cannot be the rows of a picture, even if they are not smooth


def neighbor_distance(values: Array, axis: int, step: int = 1) -> float:
    """Return the mean distance of values ``step`` apart along ``axis``, divided by that of shuffled values.

    ``values`` are samples × anything; each sample is shuffled separately. The result is about 1 if order carries no
    information, and exactly 1 if all values are equal or the axis is too short.
    """
    if values.shape[axis] <= step or not len(values):
        return 1.0
    finite = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    shifted = np.take(finite, np.arange(step, finite.shape[axis]), axis)
    distance = np.abs(shifted - np.take(finite, np.arange(finite.shape[axis] - step), axis)).mean()
    flat = finite.reshape(len(finite), -1)
    order = np.random.default_rng(0).permutation(flat.shape[1])
    shuffled = np.abs(flat[:, order] - flat).mean()
    return float(distance / shuffled) if shuffled > 0 else 1.0


@dataclass(frozen=True)
class SeriesRenderer:
    """Renders time series of one data set, with time along ``axis``."""

    axis: int
    names: Sequence[str] | None = None

    @classmethod
    def of(cls, values: Sequence[Any], hints: DatasetHints) -> SeriesRenderer | None:
        """Return the renderer if all values are smooth series, or a few parallel series, else None."""
        arrays = [array for value in values if (array := as_array(value)) is not None and array.dtype.kind in "fiu"]
        if (
            len(arrays) < len(values)
            or len({array.ndim for array in arrays}) > 1
            or any(array.size == 0 for array in arrays)
        ):
            return None
        if max(arrays[0].shape, default=0) < _MIN_LENGTH:
            return None
        if arrays[0].ndim == 1:
            if arrays[0].dtype.kind != "f" and arrays[0].dtype.itemsize > 2:  # ids rather than measurements
                return None
            return (
                cls(0)
                if hints.feature_names is None and _mean_neighbor_distance(arrays, 0) < _MAX_RELATIVE_DISTANCE
                else None
            )
        axis = _time_axis(arrays) if arrays[0].ndim == 2 else None
        if axis is None:
            return None
        names = hints.columns
        return cls(axis, names if names is not None and len(names) == arrays[0].shape[1 - axis] else None)

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """Return the JSON state of the series, one thinned line per channel; ``full`` raises the limit."""
        array = as_array(value)
        assert array is not None
        rows = array[None] if array.ndim == 1 else array if self.axis == 1 else array.T
        names = list(self.names or ([""] if len(rows) == 1 else [f"channel {at}" for at in range(len(rows))]))
        return {"kind": "series", "lines": thinned_lines(rows, _MAX_LINES[full]), "names": names[: _MAX_LINES[full]]}


def _time_axis(arrays: Sequence[Array]) -> int | None:
    """Return the time axis of a 2D array: the smooth one, or the longer one next to few channels; None for pictures."""
    if arrays[0].dtype == np.uint8:
        return None
    shape = arrays[0].shape
    longer = int(shape[1] >= shape[0])
    if shape[1 - longer] <= _MAX_UNCHECKED_CHANNELS:
        return longer
    if shape[0] == shape[1]:
        return None
    distances = [_mean_neighbor_distance(arrays, 0), _mean_neighbor_distance(arrays, 1)]
    axis = int(np.argmin(distances))
    return axis if distances[axis] < _MAX_RELATIVE_DISTANCE and distances[1 - axis] > 0.9 else None


def _mean_neighbor_distance(arrays: Sequence[Array], axis: int) -> float:
    """Return the relative distance of neighbors along an axis, averaged over the samples."""
    return float(np.mean([neighbor_distance(array[None], axis + 1) for array in arrays]))


def thinned_lines(rows: Array, max_lines: int) -> list[list[float | None]]:
    """Return at most ``most`` rows as lines of at most 200 points, thinned to local extremes."""
    return [[_round_or_none(value) for value in _thin_to_extremes(row)] for row in rows[:max_lines].astype(np.float64)]


def _thin_to_extremes(row: Array) -> Array:
    """Reduce a row to at most 200 numbers: the minimum and maximum of each segment, in order."""
    if len(row) <= _MAX_POINTS:
        return row
    edges = np.linspace(0, len(row), _MAX_POINTS // 2 + 1).astype(int)
    filled = np.nan_to_num(row, nan=float(np.nanmedian(row)) if np.isfinite(row).any() else 0.0)
    out = []
    for start, end in pairwise(edges):
        part = filled[start:end]
        out += sorted((start + int(part.argmin()), start + int(part.argmax())))
    return np.asarray(row[out])


def _round_or_none(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None
