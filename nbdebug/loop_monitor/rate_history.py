"""The course of the learning rate over the steps of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_ZERO_SHARE = 1e-6  # of the highest rate; a smaller rate changes no weight by more than rounding
_LOW_SHARE = 0.01  # of the highest rate
_MAX_FIRST_RATES = 256
_SWING = 10.0  # factor between the ends of a swing of the rate
_CONSTANT = 1e-9  # relative difference between equal rates
_MIN_EPOCHS, _MIN_STEPS_PER_EPOCH = 3, 8
_RESTART_SHARE = 0.5  # of an epoch's highest rate, at most, at its start


@dataclass(frozen=True)
class RateHistory:
    """What the learning rates of all steps show.

    In the last ``zero_steps`` of the ``steps``, the rate was zero. ``swings`` counts how often it fell by a factor of
    ten or more and rose again, in ``epochs`` epochs. ``is_constant`` tells whether all steps used one rate. In
    ``warm_ups`` of the epochs, it rose from ``warm_up_start`` of the epoch's highest rate, or less, to that rate.
    ``low_share`` is the share of steps below a hundredth of the highest rate. ``final_ratio`` is the last rate over the
    highest, and ``first_ratios`` are those of the first steps, if all were recorded.
    """

    steps: int = 0
    epochs: int = 0
    zero_steps: int = 0
    swings: int = 0
    is_constant: bool = False
    warm_ups: int = 0
    warm_up_start: float = 1.0
    low_share: float = 0.0
    final_ratio: float = 1.0
    first_ratios: tuple[float, ...] = ()

    @property
    def is_zero(self) -> bool:
        """True if the rate was zero in every step."""
        return 0 < self.steps == self.zero_steps

    @property
    def rises(self) -> bool:
        """True if the last rate is the highest, and ten times the first, as in a search for a rate."""
        return self.final_ratio == 1.0 and min(self.first_ratios[:1], default=1.0) * _SWING <= 1.0

    @property
    def swings_within_epochs(self) -> bool:
        """True if the rate falls and rises more often than once per epoch."""
        return self.epochs >= _MIN_EPOCHS and self.swings > 1.2 * self.epochs

    @property
    def warms_up_in_each_epoch(self) -> bool:
        """True if the rate rises again in nearly every epoch."""
        return self.epochs >= _MIN_EPOCHS and self.warm_ups >= max(_MIN_EPOCHS, 0.9 * self.epochs)


def get_rate_history(rates: Sequence[float], steps: int, epoch_starts: Sequence[int]) -> RateHistory:
    """Describe ``rates``, evenly spaced over ``steps`` steps; ``epoch_starts`` are the steps before each epoch."""
    peak = max(rates, default=0.0)
    if rates and not any(rates):
        return RateHistory(steps, zero_steps=steps, is_constant=True)
    if peak <= 0:
        return RateHistory()
    spacing = steps / len(rates)
    trailing = next((i for i, rate in enumerate(reversed(rates)) if rate > _ZERO_SHARE * peak), 0)
    bounds = [round(start / spacing) for start in epoch_starts]
    epochs = [rates[begin:end] for begin, end in pairwise([*bounds, len(rates)])]
    long_epochs = [epoch for epoch in epochs if len(epoch) >= _MIN_STEPS_PER_EPOCH]
    starts = [epoch[0] / max(epoch) for epoch in long_epochs if _warms_up(epoch)]
    return RateHistory(
        steps,
        len(long_epochs),
        round(trailing * spacing),
        _count_swings(rates),
        peak - min(rates) <= _CONSTANT * peak,
        len(starts),
        max(starts, default=1.0),
        sum(rate < _LOW_SHARE * peak for rate in rates) / len(rates),
        rates[-1] / peak,
        tuple(rate / peak for rate in rates[:_MAX_FIRST_RATES]) if len(rates) >= steps else (),
    )


def _warms_up(rates: Sequence[float]) -> bool:
    """Check whether rates only rise, from half of the highest one or less."""
    is_rising = all(rate <= following * (1 + _CONSTANT) for rate, following in pairwise(rates))
    return is_rising and rates[-1] > 0 and rates[0] <= _RESTART_SHARE * rates[-1]


def _count_swings(rates: Sequence[float]) -> int:
    """Count how often the rate fell by a factor of ten and then rose by one."""
    swings, highest, lowest, is_low = 0, rates[0], rates[0], False
    for rate in rates:
        highest, lowest = max(highest, rate), min(lowest, rate)
        if not is_low and rate * _SWING <= highest:
            is_low, lowest = True, rate
        elif is_low and rate >= _SWING * max(lowest, 1e-30) and rate * _SWING > highest:
            swings, is_low, highest = swings + 1, False, rate
    return swings
