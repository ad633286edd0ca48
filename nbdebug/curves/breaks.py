"""Where a curve jumps for good, and where it jumps and comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.noise import GAUSS, spread
from nbdebug.curves.smoothing import running_median

LEAST = 3  # values on each side of a break


def breaks(values: NDArray[Any], most: int = 4) -> list[int]:
    """Where the mean changes, by binary segmentation; a break must pay for itself against the noise.

    The penalty is that of Schwarz (1978) for a place and a level: twice the variance times the logarithm of the length,
    doubled, since every place is tried.
    """
    noise = max(spread(values), 1e-12)
    penalty = 4 * noise**2 * np.log(max(len(values), 2))
    found: list[int] = []
    parts = [(0, len(values))]
    while parts and len(found) < most:
        gains = [best_split(values[a:b]) for a, b in parts]
        at = int(np.argmax([gain for gain, _ in gains]))
        gain, split = gains[at]
        if gain <= penalty:
            break
        a, b = parts.pop(at)
        found.append(a + split)
        parts += [(a, a + split), (a + split, b)]
    return sorted(found)


def best_split(values: NDArray[Any]) -> tuple[float, int]:
    """How much the squared error falls by splitting a stretch at its best place, and the place."""
    n = len(values)
    if n < 2 * LEAST:
        return 0.0, 0
    sums = np.cumsum(np.asarray(values, np.float64))
    k = np.arange(LEAST, n - LEAST + 1)
    left, right = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    gains = k * (n - k) / n * (left - right) ** 2
    at = int(np.argmax(gains))
    return float(gains[at]), int(k[at])


def spikes(values: NDArray[Any], least: float, sigmas: float = 10.0, width: int = 15) -> list[int]:
    """Places that stick out of the values around them by ``sigmas`` of their noise and reach over ``least``.

    What stays up is no spike: within ``width`` values the curve must be down again. Infinite values stick out.
    """
    values = np.asarray(values, np.float64)
    if len(values) < width or not (values > least).any():
        return []
    calm = running_median(np.where(np.isfinite(values), values, np.finfo(np.float32).max), width)
    noise = running_median(np.abs(np.clip(values, None, np.finfo(np.float32).max) - calm), width) * GAUSS
    high = (values - calm > sigmas * np.maximum(noise, 1e-12)) & (values > least) & (calm < least)
    return [int(i) for i in np.flatnonzero(high)]
