"""The bins of every histogram: half octaves of the magnitude, with its sign, and zero in the middle.

Bins that all histograms share can be laid side by side over layers and over time, and one look at a float's own bits
tells its bin. Magnitudes under 2**LOWEST count as zero, those over 2**HIGHEST fall into the outer bins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LOWEST, HIGHEST = -30, 14
SIDE = 2 * (HIGHEST - LOWEST)
COUNT = 2 * SIDE + 1
MIDDLE = SIDE

FAMILIES = ("weight", "gradient", "update", "activation")
STATISTICS = ("norm", "mean", "std", "absmax", "zeros", "nonfinite")


def edges() -> NDArray[np.float64]:
    """The magnitudes between the bins of one side, smallest first, SIDE + 1 of them; inside an octave 1, 1.5, 2."""
    octaves = 2.0 ** np.arange(LOWEST, HIGHEST + 1)
    return np.sort(np.concatenate([octaves, 1.5 * octaves[:-1]]))


def packed(counts: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Counts, COUNT in the last axis, as bytes: 255 times the square root of each bin's share, which keeps thin tails.

    A bin that holds anything is at least 1.
    """
    scale = np.float32(255**2) / np.maximum(counts.sum(-1, keepdims=True), 1).astype(np.float32)
    bytes_ = np.rint(np.sqrt(counts.astype(np.float32) * scale)).astype(np.uint8)
    return np.asarray(np.maximum(bytes_, counts > 0))


def shares(bytes_: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The share of each bin, from what ``packed`` made; they add up to 1, or to 0 where nothing was seen."""
    squares = (bytes_ / 255.0) ** 2
    return np.asarray(squares / np.maximum(squares.sum(-1, keepdims=True), 1e-12))
