"""The curve without its noise: while it grows, and as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from statistics import median

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.noise import spread

Curve = NDArray[np.float64]

ROWS = 256
SHARE = 0.05  # of the steps: the width over which a curve is averaged
OPENING = 5  # steps whose median is the first loss, so that a spike at the start is none
FACTOR = 4.0  # times the way down: how far the loss may rise, as in fastai, where it is four times the best loss
NOISE = 4.0  # standard deviations, below which a rise is no rise


class Running:
    """The mean of a growing curve in which old values fade, without bias: of a constant it is that constant.

    Kingma and Ba 2015, arXiv:1412.6980: what fades is divided by the weight it has in all, one less beta to the number
    of values.
    """

    def __init__(self, steps: int) -> None:
        self.beta = 1 - 1 / max(2.0, SHARE * steps)
        self.sum = self.weight = 0.0

    def __call__(self, value: float) -> float:
        """The mean with ``value`` taken in."""
        self.sum += (1 - self.beta) * (value - self.sum)
        self.weight += (1 - self.beta) * (1 - self.weight)
        return self.sum / self.weight


class Guard:
    """Tells when a loss has diverged: its running mean lies over ``best + factor * |first - best|``.

    This holds for losses below zero as well. What is less than the noise of the batches counts as no way down.
    """

    def __init__(self, steps: int, factor: float = FACTOR) -> None:
        self.running, self.factor = Running(steps), factor
        self.losses: list[float] = []
        self.best, self.mean, self.first = inf, inf, 0.0
        self.measured_at, self.height = 0, 0.0

    def diverged(self, loss: float) -> bool:
        """Takes in a finite loss, and says whether it is the end."""
        self.losses.append(loss)
        self.mean = self.running(loss)
        count = len(self.losses)
        if count <= OPENING:
            self.first = median(self.losses)
            return False
        self.best = min(self.best, self.first, self.mean)
        low = min(loss, self.mean)
        return low > self.limit() and low > self.limit(self.noise())

    def noise(self) -> float:
        """The height of a rise that is none, measured anew each time the curve has grown by half."""
        if len(self.losses) >= 1.5 * self.measured_at:
            self.measured_at = len(self.losses)
            self.height = NOISE * spread(np.array(self.losses))
        return self.height

    def limit(self, noise: float = 0.0) -> float:
        """The loss that counts as diverged, where ``noise`` is no way down yet."""
        return self.best + self.factor * max(abs(self.first - self.best), noise, 1e-6 * abs(self.best))


def smoothed(losses: Sequence[float]) -> tuple[float, ...]:
    """The curve by local lines, each fitted to the neighbors by their nearness: no lag, constants and lines are kept.

    Cleveland 1979, doi:10.1080/01621459.1979.10481038. What rises far over the start says only that the loss diverged,
    and a spike says nothing: both are cut down first, so that they do not pull up what lies beside them.
    """
    y = np.asarray(losses, np.float64)
    if len(y) < 3:
        return tuple(y.tolist())
    kept = bounded(y) if len(y) >= 2 * OPENING else y
    return tuple(local_lines(kept, max(1.5, SHARE * len(y) / 2)).tolist())


def bounded(y: Curve) -> Curve:
    """The curve without spikes, cut off at the height of its start plus the depth of its way down."""
    noise = NOISE * spread(y)
    y = unspiked(y, noise)
    opening, low = float(np.median(y[:OPENING])), float(np.percentile(y, 5))
    height = max(abs(opening - low), noise)
    return np.clip(y, None, opening + height) if isfinite(height) else y


def unspiked(y: Curve, noise: float) -> Curve:
    """The curve with each loss cut down that the three after it leave behind by more than they differ themselves."""
    after = np.lib.stride_tricks.sliding_window_view(y[1:], 3)
    high, low = after.max(1), after.min(1)
    return np.concatenate([np.minimum(y[:-3], high + (high - low) + noise), y[-3:]])


def local_lines(y: Curve, width: float) -> Curve:
    """At each place the value of the line through the neighbors, weighted by a Gaussian of ``width`` places."""
    every, flat = np.arange(len(y)), y - y[0]  # so that rounding leaves a constant what it is
    parts = []
    for places in np.array_split(every, -(-len(y) // ROWS)):  # some places at a time, since each weighs all
        offset = every[None, :] - places[:, None]
        weight = np.exp(-0.5 * (offset / width) ** 2)
        s0, s1, s2 = weight.sum(1), (weight * offset).sum(1), (weight * offset**2).sum(1)
        share = weight * (s2[:, None] - s1[:, None] * offset) / (s0 * s2 - s1**2)[:, None]
        parts.append(share @ flat)
    return np.asarray(y[0] + np.concatenate(parts))
