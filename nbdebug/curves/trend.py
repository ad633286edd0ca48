"""Whether a stretch of a curve rises or falls, beyond its noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.noise import BLOCKS, RESAMPLES, detrended
from nbdebug.curves.smoothing import binned

SURE = 3.0


@dataclass(frozen=True)
class Trend:
    """How much a stretch changes from its beginning to its end along the straight line through it.

    ``error`` is the standard error of that, by block bootstrap; ``level`` is the mean.
    """

    change: float = 0.0
    error: float = 0.0
    level: float = 0.0

    @property
    def rises(self) -> bool:
        """Whether it goes up beyond noise."""
        return self.change > SURE * self.error

    @property
    def falls(self) -> bool:
        """Whether it goes down beyond noise."""
        return -self.change > SURE * self.error


def trend(values: NDArray[Any]) -> Trend:
    """The trend of a stretch; of fewer than four values, which show none, only the level."""
    if len(values) < 4:
        return Trend(level=float(np.mean(values)) if len(values) else 0.0)
    short = binned(values, BLOCKS * 4)
    t = np.arange(len(short)) - (len(short) - 1) / 2
    weights = t * len(short) / (t @ t)
    rest = detrended(short)
    return Trend(float(weights @ short), slope_error(rest, weights), float(short.mean()))


def slope_error(rest: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The standard error of the change, from what is left beside the line, drawn anew in blocks."""
    size = max(1, round(len(rest) ** (1 / 3)))
    draws = -(-len(rest) // size)
    starts = np.random.default_rng(0).integers(0, len(rest) - size + 1, (RESAMPLES, draws))
    picked = (starts[:, :, None] + np.arange(size)).reshape(RESAMPLES, -1)[:, : len(rest)]
    found = float((rest[picked] @ weights).std())
    return found * float(np.sqrt(len(rest) / max(len(rest) - 2, 1)))
