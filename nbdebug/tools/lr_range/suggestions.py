"""Five readings of the curve of a sweep, and the pooled curve of all sweeps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.time_series import noise_level
from nbdebug.tools.lr_range.data import Suggestion, Sweep
from nbdebug.training.divergence import OPENING_STEPS, clip_divergence, smooth_curve
from nbdebug.training.hyperparameters import Quantity

_Curve = NDArray[np.float64]
_Reading = Callable[[Sweep], float | None]
MIN_POINTS = 5  # points: a shorter curve has no shape
_ORDER_OF_MAGNITUDE = 10.0
_OPENING_SHARE = 0.9  # share of the opening's height above the lowest loss
_GENTLE_SLOPE_SHARE = 0.1  # share of the steepest slope
_FloatArray = NDArray[np.float64]
_SIGNIFICANT_ERRORS = 4.5  # standard errors; pure noise exceeds them in 3 of 1000 tests, by simulation


def steepest(sweep: Sweep) -> float | None:
    """Return where the smoothed loss falls fastest over the logarithm of the value, during the descent.

    Over the value itself the slope is steepest at the smallest values, whatever the curve.
    """
    log_values, slope = _descent_slopes(sweep)
    return _from_log(log_values[slope.argmin()]) if len(slope) and slope.min() < 0 else None


def valley(sweep: Sweep) -> float | None:
    """Return the middle of the longest descent, the longest decreasing subsequence of the loss."""
    log_values, loss = _log_curve(sweep)
    if len(log_values) < MIN_POINTS:
        return None
    first, last = longest_descent(loss)
    return _from_log(log_values[(first + last) // 2]) if last > first else None


def slide(sweep: Sweep) -> float | None:
    """Return the end of the descent: the last value with at least a tenth of the steepest slope."""
    log_values, slope = _descent_slopes(sweep)
    if not len(slope) or slope.min() >= 0:
        return None
    return _from_log(log_values[np.flatnonzero(slope <= _GENTLE_SLOPE_SHARE * slope.min())[-1]])


def minimum(sweep: Sweep) -> float | None:
    """Return a tenth of the value with the lowest loss."""
    value = lowest_loss_value(sweep)
    return value / _ORDER_OF_MAGNITUDE if value is not None else None


def lowest_loss_value(sweep: Sweep) -> float | None:
    """Return the value with the lowest loss, unless it is the first."""
    log_values, loss = _log_curve(sweep)
    return _from_log(log_values[loss.argmin()]) if len(log_values) >= MIN_POINTS and loss.argmin() > 0 else None


def divergence(sweep: Sweep) -> float | None:
    """Return a tenth of the value at which the loss diverged, or None."""
    value = divergence_start(sweep)
    return value / _ORDER_OF_MAGNITUDE if value is not None else None


def divergence_start(sweep: Sweep) -> float | None:
    """Return the first value after the lowest loss from which on all losses exceed the start of the curve."""
    if sweep.ended not in ("diverged", "not finite") or not sweep.values:
        return None
    loss = np.asarray(sweep.smooth)
    is_above = loss > np.median(sweep.losses[:MIN_POINTS])
    below = np.flatnonzero(~is_above)
    last = int(below[-1]) + 1 if len(below) else 0
    return float(sweep.values[min(last, len(loss) - 1)])


READINGS: dict[Quantity, dict[str, _Reading]] = {
    "lr": {"steepest": steepest, "valley": valley, "slide": slide, "minimum": minimum, "divergence": divergence},
    "momentum": {"steepest": steepest, "valley": valley, "lowest": lowest_loss_value, "lost": divergence_start},
    "weight_decay": {"steepest": steepest, "valley": valley, "lowest": lowest_loss_value, "lost": divergence_start},
}


def suggestions(quantity: Quantity, sweeps: Sequence[Sweep]) -> tuple[Suggestion, ...]:
    """Return the suggestion of every reading over all sweeps."""
    return tuple(
        combine_readings(name, [reading(sweep) for sweep in sweeps]) for name, reading in READINGS[quantity].items()
    )


def combine_readings(name: str, values: Sequence[float | None]) -> Suggestion:
    """Return the median and the range over the sweeps, or none if most of them have no value."""
    finite_values = sorted(value for value in values if value is not None)
    if not finite_values or 2 * len(finite_values) < len(values):
        return Suggestion(name, None, None, None, tuple(values))
    return Suggestion(name, _log_median(finite_values), finite_values[0], finite_values[-1], tuple(values))


def _log_median(values: Sequence[float]) -> float:
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    return low if low == high else float(np.sqrt(low * high))


def _log_curve(sweep: Sweep) -> tuple[_Curve, _Curve]:
    """Return the logarithms of the positive values, and their smoothed losses."""
    values, loss = np.asarray(sweep.values, np.float64), np.asarray(sweep.smooth, np.float64)
    return np.log(values[values > 0]), loss[values > 0]


def _descent_slopes(sweep: Sweep) -> tuple[_Curve, _Curve]:
    """Return logarithms and slopes from the last loss near the opening to the lowest.

    Leaves out what a noisy curve does before its descent. Empty if there are too few points.
    """
    log_values, loss = _log_curve(sweep)
    if len(log_values) < MIN_POINTS:
        return log_values[:0], loss[:0]
    low = int(loss.argmin())
    opening = float(np.median(loss[log_values <= (log_values[0] + log_values[low]) / 2]))
    high_positions = np.flatnonzero(loss[: low + 1] >= loss[low] + _OPENING_SHARE * (opening - loss[low]))
    descent = slice(int(high_positions[-1]) if len(high_positions) else 0, low + 1)
    return log_values[descent], np.gradient(loss, log_values)[descent]


def _from_log(log_value: float) -> float:
    """Return the value of a logarithm, rounded to ten digits to remove rounding noise."""
    return float(f"{np.exp(log_value):.10g}")


def longest_descent(loss: _Curve) -> tuple[int, int]:
    """Return first and last index of the longest strictly decreasing subsequence.

    Fredman 1975, doi:10.1016/0012-365X(75)90103-X: for each length, keep the subsequence with the highest end.
    """
    resolution = 1e-9 * float(np.ptp(loss)) or 1.0
    tails: list[float] = []
    ends: list[int] = []
    predecessors: list[int] = []
    for i, key in enumerate(np.round((loss.max() - loss) / resolution).tolist()):
        position = bisect_left(tails, key)
        predecessors.append(ends[position - 1] if position else -1)
        tails[position : position + 1], ends[position : position + 1] = [key], [i]
    first = last = ends[-1]
    while predecessors[first] >= 0:
        first = predecessors[first]
    return first, last


def pool_sweeps(sweeps: Sequence[Sweep]) -> Sweep:
    """Return the mean of the sweeps at each value; a diverged sweep continues at its highest loss.

    Losses above the start count at most as the height of the start plus the depth of the descent.
    """
    longest_sweep = max(sweeps, key=lambda sweep: len(sweep.values))
    rows = np.full((len(sweeps), len(longest_sweep.values)), np.nan)
    for row, finished_sweep in zip(rows, sweeps, strict=True):
        loss = clip_divergence(np.asarray(finished_sweep.losses, np.float64))
        row[: len(loss)] = loss
        if finished_sweep.ended in ("diverged", "not finite"):
            row[len(loss) :] = loss.max()
    losses = np.nanmean(rows, 0).tolist()
    return replace(longest_sweep, losses=tuple(losses), smooth=smooth_curve(losses))


@dataclass(frozen=True)
class PooledCurve:
    """The descent of a curve over the logarithm of its values."""

    sweep: Sweep

    @cached_property
    def log_values(self) -> _FloatArray:
        """Logarithms of the values; a value of zero counts as the lowest positive one."""
        values = np.asarray(self.sweep.values, np.float64)
        return np.asarray(np.log(np.maximum(values, values[values > 0].min(initial=np.inf))))

    @cached_property
    def loss(self) -> _FloatArray:
        """The smoothed loss."""
        return np.asarray(self.sweep.smooth, np.float64)

    @property
    def lowest_index(self) -> int:
        """The index of the lowest loss."""
        return int(self.loss.argmin())

    @property
    def depth(self) -> float:
        """The difference between the initial and the lowest loss."""
        return float(np.median(self.sweep.losses[:OPENING_STEPS]) - self.loss.min())

    @property
    def has_descent(self) -> bool:
        """True if the loss falls by more than the noise of the batches allows.

        Splits the losses (up to where half of the descent is lost again) at each index; for the best split, the mean
        before it must exceed the mean after it by several standard errors.
        """
        losses = np.asarray(self.sweep.losses, np.float64)[: self.ascent_index(0.5) + 1]
        if len(losses) < 2 * OPENING_STEPS or self.depth <= 1e-6 * abs(float(losses[0])):
            return False
        counts_before = np.arange(OPENING_STEPS, len(losses) - OPENING_STEPS + 1)
        counts_after, cumulative = len(losses) - counts_before, losses.cumsum()
        drop = (
            cumulative[counts_before - 1] / counts_before
            - (cumulative[-1] - cumulative[counts_before - 1]) / counts_after
        )
        return bool((drop > _SIGNIFICANT_ERRORS * self.noise * np.sqrt(1 / counts_before + 1 / counts_after)).any())

    @property
    def noise(self) -> float:
        """The standard deviation of a loss around the curve, up to the lowest loss, including heavy tails."""
        losses = np.asarray(self.sweep.losses, np.float64)
        second_differences = np.diff(losses[: max(self.lowest_index, len(losses) // 4) + 1], 2)
        return max(
            noise_level(losses), float(np.sqrt((second_differences**2).mean() / 6)) if len(second_differences) else 0.0
        )

    def descent_index(self, share: float) -> int:
        """Return the first index before the lowest from which on this share of the descent is made."""
        above = np.flatnonzero(self.loss[: self.lowest_index + 1] > self.loss.min() + (1 - share) * self.depth)
        return min(int(above[-1]) + 1, self.lowest_index) if len(above) else 0

    def ascent_index(self, share: float) -> int:
        """Return the last index after the lowest up to which this share of the descent remains."""
        above = np.flatnonzero(self.loss[self.lowest_index :] > self.loss.min() + (1 - share) * self.depth)
        return self.lowest_index + int(above[0]) - 1 if len(above) else len(self.loss) - 1
