"""How far a curve strays by chance: from its own differences, and by block bootstrap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.smoothing import Curve, binned

RESAMPLES, BLOCKS, GAUSS = 200, 24, 1.4826


def spread(values: NDArray[Any]) -> float:
    """The standard deviation of a value about the curve: of second differences, by their median, which a trend or a
    few outliers leave as it is."""
    if len(values) < 4:
        return 0.0
    bends = np.diff(np.asarray(values, np.float64), 2)
    return float(GAUSS * np.median(np.abs(bends)) / np.sqrt(6))


def resampled(values: NDArray[Any], seed: int = 0) -> Curve:
    """Means of ``values`` drawn anew in blocks of neighbors, RESAMPLES of them: noise that hangs together stays so.

    Künsch 1989: the moving block bootstrap, with blocks of the cube root of the length.
    """
    short = binned(values, BLOCKS * 4)
    size = max(1, round(len(short) ** (1 / 3)))
    draws = -(-len(short) // size)
    starts = np.random.default_rng(seed).integers(0, len(short) - size + 1, (RESAMPLES, draws))
    picked = starts[:, :, None] + np.arange(size)
    return np.asarray(short[picked.reshape(RESAMPLES, -1)[:, : len(short)]].mean(1))


def standard_error(values: NDArray[Any]) -> float:
    """The standard error of the mean of a stretch, its own straight trend taken out first."""
    if len(values) < 3:
        return 0.0
    return float(resampled(detrended(values)).std())


def detrended(values: NDArray[Any]) -> Curve:
    """The values less the straight line through them."""
    values = np.asarray(values, np.float64)
    t = np.arange(len(values)) - (len(values) - 1) / 2
    slope = (t @ values) / max(float(t @ t), 1e-12)
    return np.asarray(values - values.mean() - slope * t)
