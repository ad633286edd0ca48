"""The recommended value of a range test, and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log

import numpy as np

from nbdebug.tools.lr_range.data import QUANTITY_NAMES, RangeVerdict, Suggestion, Sweep
from nbdebug.tools.lr_range.suggestions import MIN_POINTS, PooledCurve, pool_sweeps
from nbdebug.training.hyperparameters import Quantity

_MIN_SWEEP_SHARE = 0.1  # share of the values: a sweep that ends earlier is too short
_MAX_INTERVAL_RATIO = 10.0  # ratio of highest to lowest value from which on the sweeps disagree
_INTERVAL_QUANTILES = 0.1, 0.9  # quantiles over sweeps, since the full range grows with their number
_HALF_DESCENT = 0.5  # share of the descent
_BOTTOM_SHARE = 0.7  # share of the descent from which on the loss counts as low
_SWEEP_OVERSHOOT = 1.6  # a training at a constant rate does well this many times below the bottom
_MAX_MOMENTUM = 0.9  # momentum


@dataclass(frozen=True)
class Recommendation:
    """The verdict of all sweeps together, and the recommended value if there is one."""

    verdict: RangeVerdict
    headline: str
    reasons: tuple[str, ...] = ()
    recommended: Suggestion | None = None


def recommend(
    quantity: Quantity, sweeps: Sequence[Sweep], steps: int, has_no_gradient: bool = False, momentum: float = 0.9
) -> Recommendation:
    """Return the recommendation of the sweeps.

    ``steps`` is their full length; ``has_no_gradient`` says that no gradient reached the trained parameters;
    ``momentum`` is that of the optimizer, or its first beta.
    """
    name = QUANTITY_NAMES[quantity]
    usable = [sweep for sweep in sweeps if len(sweep.losses) >= MIN_POINTS]
    if not usable:
        return _no_curve_recommendation(name, sweeps)
    if all(
        len(sweep.losses) < max(MIN_POINTS, _MIN_SWEEP_SHARE * steps) and sweep.ended in ("diverged", "not finite")
        for sweep in usable
    ):
        start = usable[0].values[0]
        return Recommendation("diverges at once", f"The loss diverges from {start:.2g} on: lower start.")
    curve = PooledCurve(pool_sweeps(usable))
    if not curve.has_descent:
        return _flat_recommendation(name, usable, has_no_gradient)
    suggestion = _pooled_suggestion(quantity, curve, usable, momentum)
    if (
        suggestion.value is None
        or suggestion.low is None
        or suggestion.high is None
        or suggestion.high > _MAX_INTERVAL_RATIO * suggestion.low
    ):
        reason = f"the sweeps disagree: {suggestion}".replace("recommended: ", "")
        return Recommendation("unclear", f"These curves give no clear {name}.", (reason, "try seeds=5 or steps=200"))
    sentence = (
        f"Take a {name} of {suggestion.value:.2g}; "
        f"the sweeps put it between {suggestion.low:.2g} and {suggestion.high:.2g}."
    )
    if any(sweep.ended in ("stopped", "interrupted") for sweep in sweeps):
        return Recommendation("stopped", f"Stopped early. {sentence}", _edge_notes(curve), suggestion)
    return Recommendation("clear", sentence, _edge_notes(curve), suggestion)


def _edge_notes(curve: PooledCurve) -> tuple[str, ...]:
    """Return notes on a descent that extends beyond the swept values."""
    values, notes = curve.sweep.values, []
    if curve.descent_index(_HALF_DESCENT) == 0:
        notes.append(f"the loss falls from the first value on, {values[0]:.2g}: lower start to see the whole descent")
    if curve.lowest_index == len(values) - 1:
        notes.append(f"the loss still falls at the last value, {values[-1]:.2g}: raise end to see where it stops")
    return tuple(notes)


def _pooled_suggestion(quantity: Quantity, curve: PooledCurve, sweeps: Sequence[Sweep], momentum: float) -> Suggestion:
    """Return the value of the pooled curve, with an interval over the sweeps of at least one step to either side."""
    get_value = partial(_recommended_rate, momentum=momentum) if quantity == "lr" else _value_of_lowest_loss
    value, each = (
        get_value(curve),
        tuple(get_value(curve_of_sweep) for curve_of_sweep in map(PooledCurve, sweeps) if curve_of_sweep.depth > 0),
    )
    step = exp(curve.log_values[-1] - curve.log_values[-2])
    quantiles = np.quantile(each or (value,), _INTERVAL_QUANTILES)
    low, high = min(float(quantiles[0]), value / step), max(float(quantiles[1]), value * step)
    return Suggestion("recommended", value, round_significant(low), round_significant(high), each)


def _recommended_rate(curve: PooledCurve, momentum: float) -> float:
    """Return the log-center of the bottom of the curve, corrected for what a sweep overshoots.

    The bottom are the values around the lowest loss that keep 70% of the descent. A sweep passes each rate in one step,
    so it reaches higher rates than a training at a constant rate can use; with momentum, the effect of a rate shows
    only when the sweep is at higher ones. The factor was found by training at grids of rates (benchmarks/lr_range.py).
    """
    first, last = curve.descent_index(_BOTTOM_SHARE), curve.ascent_index(_BOTTOM_SHARE)
    bottom_center = (curve.log_values[first] + curve.log_values[last]) / 2
    index = min(int(np.searchsorted(curve.log_values, bottom_center)), len(curve.log_values) - 2)
    growth = exp(float(curve.log_values[index + 1] - curve.log_values[index]))
    return round_significant(exp(float(bottom_center)) / (_SWEEP_OVERSHOOT * _momentum_delay(momentum, growth)))


def _momentum_delay(momentum: float, growth: float) -> float:
    """Return by how much the values grow until a gradient has had half of its effect, limited by the total momentum.

    Momenta above 0.9 count as 0.9: with Nesterov momentum 0.95, training needed no larger correction.
    """
    if momentum <= 0:
        return 1.0
    capped_momentum = min(momentum, _MAX_MOMENTUM)
    return min(exp(log(growth) * log(0.5) / log(capped_momentum)), 1 / (1 - capped_momentum))


def _value_of_lowest_loss(curve: PooledCurve) -> float:
    return round_significant(curve.sweep.values[curve.lowest_index])


def round_significant(value: float) -> float:
    """Return the value rounded to three significant digits."""
    return float(f"{value:.3g}")


def _no_curve_recommendation(name: str, sweeps: Sequence[Sweep]) -> Recommendation:
    if any(sweep.ended in ("stopped", "interrupted") for sweep in sweeps) or not sweeps:
        return Recommendation("stopped", "Stopped before there was a curve to evaluate.")
    start = next((sweep.values[0] for sweep in sweeps if sweep.values), None)
    if start is None:
        headline = f"The loss is not finite on the first batch, before any step: no {name} can be recommended."
        return Recommendation("diverges at once", headline, ("run the checkup: it finds the source of the first NaN",))
    return Recommendation("diverges at once", f"The loss diverges from {start:.2g} on: lower start.")


def _flat_recommendation(name: str, sweeps: Sequence[Sweep], has_no_gradient: bool) -> Recommendation:
    end = max(sweep.values[-1] for sweep in sweeps)
    if has_no_gradient:
        reasons: tuple[str, ...] = ("no nonzero gradient reaches the parameters of the optimizer",)
    elif any(sweep.ended in ("diverged", "not finite") for sweep in sweeps):
        reason = f"no {name} lowers the loss before it grows: the model may be trained already"
        reasons = (reason, "or batch noise hides the descent: try seeds=5 or steps=200")
    else:
        reasons = (f"up to {end:.2g} the loss stays within the noise of the batches", "raise end, or run the checkup")
    return Recommendation("flat", f"The loss does not fall at any {name}: no recommendation.", reasons)
