"""Whether a curve repeats a pattern of a known length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.smoothing import Curve


@dataclass(frozen=True)
class Rhythm:
    """A pattern that comes again every period.

    ``agreement`` is the mean correlation of one period with the mean of the others, ``swing`` the height of the pattern
    when its jitter is smoothed away, ``waves`` the share of its variance in slow waves: near one for drifts and blocks
    within a period, near the share of those waves for a fixed order of batches that are alike.
    """

    agreement: float
    swing: float
    waves: float
    periods: int


def rhythm(values: NDArray[Any], period: int) -> Rhythm | None:
    """The rhythm of a period; None with fewer than three of them or fewer than six values in each."""
    periods = len(values) // period if period > 0 else 0
    if periods < 3 or period < 6:
        return None
    whole = np.asarray(values[len(values) - periods * period :], np.float64).reshape(periods, period)
    rows = level(whole)
    pattern = rows.mean(0)
    others = (rows.sum(0) - rows) / (periods - 1)
    agreement = float(np.mean([correlation(a, b) for a, b in zip(rows, others, strict=True)]))
    return Rhythm(agreement, float(np.ptp(slow(pattern))), slow_share(pattern), periods)


def level(rows: Curve) -> Curve:
    """Each period less the line from its own mean to that of the next, which is what learning does."""
    means = rows.mean(1)
    n = rows.shape[1]
    drift = np.gradient(means) if len(means) > 1 else np.zeros(1)
    t = (np.arange(n) - (n - 1) / 2) / n
    return np.asarray(rows - means[:, None] - drift[:, None] * t)


def periodogram(pattern: Curve) -> Curve:
    """The variance in each whole number of waves, from one up."""
    return np.asarray(np.abs(np.fft.rfft(pattern - pattern.mean()))[1:] ** 2)


def slow_share(pattern: Curve) -> float:
    """The share of the variance in the slowest sixth of the waves, at least one."""
    power = periodogram(pattern)
    return float(power[: max(1, len(power) // 6)].sum() / max(float(power.sum()), 1e-30))


def slow(pattern: Curve) -> Curve:
    """The pattern made of its slowest waves alone."""
    waves = np.fft.rfft(pattern)
    waves[1 + max(1, (len(waves) - 1) // 6) :] = 0
    return np.asarray(np.fft.irfft(waves, len(pattern)))


def correlation(a: Curve, b: Curve) -> float:
    """The correlation of two patterns; 0 where one is flat."""
    a, b = a - a.mean(), b - b.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size > 0 else 0.0
