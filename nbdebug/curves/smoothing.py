"""A noisy curve made short or smooth, by medians and means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]


def binned(values: NDArray[Any], most: int = 64) -> Curve:
    """The means of at most ``most`` stretches of equal length, in order."""
    count = min(most, len(values))
    if count == 0:
        return np.zeros(0)
    edges = np.linspace(0, len(values), count + 1).astype(int)
    sums = np.add.reduceat(np.asarray(values, np.float64), edges[:-1])
    return np.asarray(sums / np.diff(edges))


def medians(values: NDArray[Any], most: int = 64) -> Curve:
    """The medians of at most ``most`` stretches, which single outliers do not move."""
    return np.array([np.median(part) for part in np.array_split(values, min(most, len(values))) if len(part)])


def running_median(values: NDArray[Any], width: int) -> Curve:
    """The median of the ``width`` values around each one; the ends are repeated."""
    half = width // 2
    padded = np.pad(np.asarray(values, np.float64), half, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1))
