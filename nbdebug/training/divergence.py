"""Smooths loss curves, and detects divergence while they grow."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from statistics import median

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.time_series import noise_level

_Curve = NDArray[np.float64]
_CHUNK_ROWS = 256
WINDOW_SHARE = 0.05  # window of the average, as a share of the steps
OPENING_STEPS = 5  # the initial loss is the median of these steps, robust to a spike
DIVERGENCE_FACTOR = 4.0  # largest rise, in units of the descent; fastai stops at four times the best loss
_NOISE_SIGMAS = 4.0  # smaller rises, in standard deviations, are ignored


class RunningMean:
    """Bias-corrected exponential moving average of a growing curve.

    Kingma and Ba 2015, arXiv:1412.6980: the average is divided by one minus beta to the power of the number of values.
    """

    def __init__(self, steps: int) -> None:
        self.beta = 1 - 1 / max(2.0, WINDOW_SHARE * steps)
        self.sum = self.weight = 0.0

    def __call__(self, value: float) -> float:
        """Update the mean with ``value`` and return it."""
        self.sum += (1 - self.beta) * (value - self.sum)
        self.weight += (1 - self.beta) * (1 - self.weight)
        return self.sum / self.weight


class DivergenceDetector:
    """Detects divergence: the running mean exceeds ``best + factor * |first - best|``.

    Works for negative losses too. A descent within the noise of the batches does not count.
    """

    def __init__(self, steps: int, factor: float = DIVERGENCE_FACTOR) -> None:
        self.running_mean, self.factor = RunningMean(steps), factor
        self.losses: list[float] = []
        self.best, self.mean, self.first = inf, inf, 0.0
        self.measured_at, self.cached_noise_height = 0, 0.0

    def update_and_check(self, loss: float) -> bool:
        """Add a finite loss, and return whether the loss has diverged."""
        self.losses.append(loss)
        self.mean = self.running_mean(loss)
        count = len(self.losses)
        if count <= OPENING_STEPS:
            self.first = median(self.losses)
            return False
        self.best = min(self.best, self.first, self.mean)
        low = min(loss, self.mean)
        return low > self.divergence_limit() and low > self.divergence_limit(self.noise_height())

    def noise_height(self) -> float:
        """Return the height of a rise within the noise, updated each time the curve has grown by half."""
        if len(self.losses) >= 1.5 * self.measured_at:
            self.measured_at = len(self.losses)
            self.cached_noise_height = _NOISE_SIGMAS * noise_level(np.array(self.losses))
        return self.cached_noise_height

    def divergence_limit(self, noise: float = 0.0) -> float:
        """Return the loss that counts as diverged, with ``noise_height`` as the smallest descent."""
        return self.best + self.factor * max(abs(self.first - self.best), noise, 1e-6 * abs(self.best))


def smooth_curve(losses: Sequence[float]) -> tuple[float, ...]:
    """Smooth a curve by local linear regression, which has no lag and preserves constants and lines.

    Cleveland 1979, doi:10.1080/01621459.1979.10481038. Spikes, and losses far above the start after divergence, are
    clipped first, so that they do not affect their neighbors.
    """
    y = np.asarray(losses, np.float64)
    if len(y) < 3:
        return tuple(y.tolist())
    clipped = clip_divergence(y) if len(y) >= 2 * OPENING_STEPS else y
    return tuple(_local_linear_fit(clipped, max(1.5, WINDOW_SHARE * len(y) / 2)).tolist())


def clip_divergence(y: _Curve) -> _Curve:
    """Return the curve without spikes, clipped at the height of its start plus the depth of its descent."""
    noise = _NOISE_SIGMAS * noise_level(y)
    y = _remove_spikes(y, noise)
    opening, low = float(np.median(y[:OPENING_STEPS])), float(np.percentile(y, 5))
    height = max(abs(opening - low), noise)
    return np.clip(y, None, opening + height) if isfinite(height) else y


def _remove_spikes(y: _Curve, noise: float) -> _Curve:
    """Clip each loss that exceeds the three after it by more than they differ among themselves."""
    next_values = np.lib.stride_tricks.sliding_window_view(y[1:], 3)
    high, low = next_values.max(1), next_values.min(1)
    return np.concatenate([np.minimum(y[:-3], high + (high - low) + noise), y[-3:]])


def _local_linear_fit(y: _Curve, width: float) -> _Curve:
    """Return the local linear fit at each position, weighted by a Gaussian of ``width`` positions."""
    positions, offset_values = np.arange(len(y)), y - y[0]  # so that rounding does not change a constant
    parts = []
    for chunk in np.array_split(positions, -(-len(y) // _CHUNK_ROWS)):  # in chunks, since each position uses all others
        offset = positions[None, :] - chunk[:, None]
        weight = np.exp(-0.5 * (offset / width) ** 2)
        s0, s1, s2 = weight.sum(1), (weight * offset).sum(1), (weight * offset**2).sum(1)
        kernel = weight * (s2[:, None] - s1[:, None] * offset) / (s0 * s2 - s1**2)[:, None]
        parts.append(kernel @ offset_values)
    return np.asarray(y[0] + np.concatenate(parts))
