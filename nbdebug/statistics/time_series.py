"""Noise, trend, change points, periodicity and smoothing of a noisy curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import MAD_TO_SIGMA

Curve = NDArray[np.float64]
_RESAMPLES, _BOOTSTRAP_BLOCKS = 200, 24
_SIGNIFICANT_SIGMAS = 3.0
_MIN_SEGMENT_LENGTH = 3  # values on each side of a change point


@dataclass(frozen=True)
class CurveBand:
    """The mean of several curves at some steps, with the lower and upper end of a band around it."""

    steps: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @classmethod
    def of(cls, steps: NDArray[Any], mean: Curve, low: Curve, high: Curve) -> CurveBand:
        """Return the band as plain data."""
        return cls(tuple(steps.astype(int).tolist()), *(tuple(curve.tolist()) for curve in (mean, low, high)))


def bin_means(values: NDArray[Any], max_bins: int = 64) -> Curve:
    """Return the means of at most ``max_bins`` segments of equal length, in order."""
    count = min(max_bins, len(values))
    if count == 0:
        return np.zeros(0)
    edges = np.linspace(0, len(values), count + 1).astype(int)
    totals = np.add.reduceat(np.asarray(values, np.float64), edges[:-1])
    return np.asarray(totals / np.diff(edges))


def bin_medians(values: NDArray[Any], max_bins: int = 64) -> Curve:
    """Return the medians of at most ``max_bins`` segments, which single outliers do not move."""
    return np.array(
        [np.median(segment) for segment in np.array_split(values, min(max_bins, len(values))) if len(segment)]
    )


def running_median(values: NDArray[Any], width: int) -> Curve:
    """Return the median of ``width`` values around each value; the ends are repeated."""
    half = width // 2
    padded = np.pad(np.asarray(values, np.float64), half, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1))


def noise_level(values: NDArray[Any]) -> float:
    """Return the standard deviation of a curve's noise, from the median of its second differences.

    A trend and a few outliers do not affect it.
    """
    if len(values) < 4:
        return 0.0
    second_differences = np.diff(np.asarray(values, np.float64), 2)
    return float(MAD_TO_SIGMA * np.median(np.abs(second_differences)) / np.sqrt(6))


def bootstrap_means(values: NDArray[Any], seed: int = 0) -> Curve:
    """Return 200 bootstrap means of ``values``, resampled in blocks of neighbors to preserve autocorrelation.

    The moving block bootstrap of Künsch (1989), with blocks of the cube root of the length.
    """
    bins = bin_means(values, _BOOTSTRAP_BLOCKS * 4)
    size = max(1, round(len(bins) ** (1 / 3)))
    blocks_per_sample = -(-len(bins) // size)
    starts = np.random.default_rng(seed).integers(0, len(bins) - size + 1, (_RESAMPLES, blocks_per_sample))
    indices = starts[:, :, None] + np.arange(size)
    return np.asarray(bins[indices.reshape(_RESAMPLES, -1)[:, : len(bins)]].mean(1))


def standard_error(values: NDArray[Any]) -> float:
    """Return the standard error of the mean of a segment, after removing its linear trend."""
    if len(values) < 3:
        return 0.0
    return float(bootstrap_means(_detrend(values)).std())


def _detrend(values: NDArray[Any]) -> Curve:
    """Return the values minus their least-squares line."""
    values = np.asarray(values, np.float64)
    t = np.arange(len(values)) - (len(values) - 1) / 2
    slope = (t @ values) / max(float(t @ t), 1e-12)
    return np.asarray(values - values.mean() - slope * t)


@dataclass(frozen=True)
class LinearTrend:
    """Change of a segment from its start to its end along its least-squares line.

    ``error`` is its standard error by block bootstrap; ``level`` is the mean.
    """

    change: float = 0.0
    error: float = 0.0
    level: float = 0.0

    @property
    def rises(self) -> bool:
        """True if the trend rises beyond noise."""
        return self.change > _SIGNIFICANT_SIGMAS * self.error

    @property
    def falls(self) -> bool:
        """True if the trend falls beyond noise."""
        return -self.change > _SIGNIFICANT_SIGMAS * self.error


def fit_trend(values: NDArray[Any]) -> LinearTrend:
    """Return the trend of a segment; with fewer than four values only the level."""
    if len(values) < 4:
        return LinearTrend(level=float(np.mean(values)) if len(values) else 0.0)
    bins = bin_means(values, _BOOTSTRAP_BLOCKS * 4)
    t = np.arange(len(bins)) - (len(bins) - 1) / 2
    weights = t * len(bins) / (t @ t)
    residuals = _detrend(bins)
    return LinearTrend(float(weights @ bins), _slope_error(residuals, weights), float(bins.mean()))


def _slope_error(residuals: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the standard error of the change, by block bootstrap of the residuals."""
    size = max(1, round(len(residuals) ** (1 / 3)))
    blocks_per_sample = -(-len(residuals) // size)
    starts = np.random.default_rng(0).integers(0, len(residuals) - size + 1, (_RESAMPLES, blocks_per_sample))
    indices = (starts[:, :, None] + np.arange(size)).reshape(_RESAMPLES, -1)[:, : len(residuals)]
    error = float((residuals[indices] @ weights).std())
    return error * float(np.sqrt(len(residuals) / max(len(residuals) - 2, 1)))


def change_points(values: NDArray[Any], max_points: int = 4) -> list[int]:
    """Return where the mean changes, by binary segmentation.

    The penalty is that of Schwarz (1978) for a position and a level: twice the variance times the logarithm of the
    length, doubled because every position is tried.
    """
    noise = max(noise_level(values), 1e-12)
    penalty = 4 * noise**2 * np.log(max(len(values), 2))
    points: list[int] = []
    segments = [(0, len(values))]
    while segments and len(points) < max_points:
        gains = [_best_split(values[a:b]) for a, b in segments]
        best = int(np.argmax([gain for gain, _ in gains]))
        gain, split = gains[best]
        if gain <= penalty:
            break
        a, b = segments.pop(best)
        points.append(a + split)
        segments += [(a, a + split), (a + split, b)]
    return sorted(points)


def _best_split(values: NDArray[Any]) -> tuple[float, int]:
    """Return the reduction of the squared error by the best split of a segment, and the position of the split."""
    n = len(values)
    if n < 2 * _MIN_SEGMENT_LENGTH:
        return 0.0, 0
    cumulative = np.cumsum(np.asarray(values, np.float64))
    k = np.arange(_MIN_SEGMENT_LENGTH, n - _MIN_SEGMENT_LENGTH + 1)
    left_means, right_means = cumulative[k - 1] / k, (cumulative[-1] - cumulative[k - 1]) / (n - k)
    gains = k * (n - k) / n * (left_means - right_means) ** 2
    best = int(np.argmax(gains))
    return float(gains[best]), int(k[best])


def spike_positions(values: NDArray[Any], threshold: float, sigmas: float = 10.0, width: int = 15) -> list[int]:
    """Return positions that exceed their surroundings by ``sigmas`` of the local noise and exceed ``threshold``.

    A lasting rise is no spike: within ``width`` values the curve must be down again. Infinite values count as spikes.
    """
    values = np.asarray(values, np.float64)
    if len(values) < width or not (values > threshold).any():
        return []
    baseline = running_median(np.where(np.isfinite(values), values, np.finfo(np.float32).max), width)
    noise = running_median(np.abs(np.clip(values, None, np.finfo(np.float32).max) - baseline), width) * MAD_TO_SIGMA
    is_spike = (values - baseline > sigmas * np.maximum(noise, 1e-12)) & (values > threshold) & (baseline < threshold)
    return [int(i) for i in np.flatnonzero(is_spike)]


@dataclass(frozen=True)
class Periodicity:
    """A pattern that repeats every period.

    ``agreement`` is the mean correlation of one period with the mean of the others, ``amplitude`` the height of the
    smoothed pattern, ``slow_share`` the share of its variance in slow waves: near one for drifts and blocks within a
    period, small for a fixed order of similar batches.
    """

    agreement: float
    amplitude: float
    slow_share: float
    periods: int


def find_periodicity(values: NDArray[Any], period: int) -> Periodicity | None:
    """Return the periodicity; None with fewer than three periods or fewer than six values per period."""
    periods = len(values) // period if period > 0 else 0
    if periods < 3 or period < 6:
        return None
    by_period = np.asarray(values[len(values) - periods * period :], np.float64).reshape(periods, period)
    rows = _remove_drift(by_period)
    pattern = rows.mean(0)
    mean_of_others = (rows.sum(0) - rows) / (periods - 1)
    agreement = float(np.mean([_correlation(a, b) for a, b in zip(rows, mean_of_others, strict=True)]))
    return Periodicity(agreement, float(np.ptp(_slow_component(pattern))), _slow_share(pattern), periods)


def _remove_drift(rows: Curve) -> Curve:
    """Subtract from each period the line from its own mean to that of the next, which is the progress of training."""
    means = rows.mean(1)
    n = rows.shape[1]
    drift = np.gradient(means) if len(means) > 1 else np.zeros(1)
    t = (np.arange(n) - (n - 1) / 2) / n
    return np.asarray(rows - means[:, None] - drift[:, None] * t)


def _periodogram(pattern: Curve) -> Curve:
    """Return the variance at each integer frequency, from 1."""
    return np.asarray(np.abs(np.fft.rfft(pattern - pattern.mean()))[1:] ** 2)


def _slow_share(pattern: Curve) -> float:
    """Return the share of variance in the lowest sixth of the frequencies (at least one frequency)."""
    power = _periodogram(pattern)
    return float(power[: max(1, len(power) // 6)].sum() / max(float(power.sum()), 1e-30))


def _slow_component(pattern: Curve) -> Curve:
    spectrum = np.fft.rfft(pattern)
    spectrum[1 + max(1, (len(spectrum) - 1) // 6) :] = 0
    return np.asarray(np.fft.irfft(spectrum, len(pattern)))


def _correlation(a: Curve, b: Curve) -> float:
    """Return the correlation of two patterns, or 0 if one is constant."""
    a, b = a - a.mean(), b - b.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size > 0 else 0.0
