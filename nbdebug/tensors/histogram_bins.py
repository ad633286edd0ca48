"""The half-octave bins of every histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_EXPONENT, MAX_EXPONENT = -30, 14
BINS_PER_SIGN = 2 * (MAX_EXPONENT - MIN_EXPONENT)
BIN_COUNT = 2 * BINS_PER_SIGN + 1
ZERO_BIN = BINS_PER_SIGN
_SIGNAL_FAMILIES = ("weight", "gradient", "update", "activation")
TENSOR_STATISTICS = ("norm", "mean", "std", "absmax", "zeros", "nonfinite")


def bin_edges() -> NDArray[np.float64]:
    """Return the edges of the bins of one sign in ascending order: 1 and 1.5 times the powers of two."""
    octaves = 2.0 ** np.arange(MIN_EXPONENT, MAX_EXPONENT + 1)
    return np.sort(np.concatenate([octaves, 1.5 * octaves[:-1]]))


def pack_counts(counts: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Convert counts, with bins in the last axis, to bytes: 255 times the square root of each bin's share.

    The square root preserves thin tails. A nonempty bin is at least 1.
    """
    scale = np.float32(255**2) / np.maximum(counts.sum(-1, keepdims=True), 1).astype(np.float32)
    bytes_ = np.rint(np.sqrt(counts.astype(np.float32) * scale)).astype(np.uint8)
    return np.asarray(np.maximum(bytes_, counts > 0))


def bin_shares(bytes_: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the share of each bin from the bytes of ``pack_counts``; they sum to 1, or to 0 for no values."""
    squares = (bytes_ / 255.0) ** 2
    return np.asarray(squares / np.maximum(squares.sum(-1, keepdims=True), 1e-12))
