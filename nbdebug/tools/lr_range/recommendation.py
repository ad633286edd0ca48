"""The recommended value of a range test, and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log

import numpy as np

from nbdebug.tools.lr_range.data import QUANTITY_NAMES, RangeVerdict, Suggestion, Sweep
from nbdebug.tools.lr_range.schedules import Schedule
from nbdebug.tools.lr_range.suggestions import MIN_POINTS, PooledCurve, pool_sweeps
from nbdebug.training.hyperparameters import Quantity

_MIN_SWEEP_SHARE = 0.1  # share of the values: a sweep that ends earlier is too short
_MAX_INTERVAL_RATIO = 10.0  # ratio of highest to lowest value from which on the sweeps disagree
_INTERVAL_QUANTILES = 0.1, 0.9  # quantiles over sweeps, since the full range grows with their number
_MAX_BOTTOM_RATIO = 100.0  # of the bottom's values; up to 49 on 22 pairs of a problem and an optimizer
_HALF_DESCENT = 0.5  # share of the descent
_BOTTOM_SHARE = 0.9  # share of the descent from which on the loss counts as low
_SWEEP_OVERSHOOT = 1.8  # a training at a constant rate does well this many times below the bottom
_MAX_MOMENTUM = 0.9  # momentum
_SCHEDULE_FACTORS: dict[Schedule, float] = {"constant": 1.0, "one-cycle": 3.5}  # of the constant rate


@dataclass(frozen=True)
class Recommendation:
    """The verdict of all sweeps together, and the recommended value if there is one.

    ``candidate`` is the value that the curves point at, also where they give no clear answer.
    """

    verdict: RangeVerdict
    headline: str
    reasons: tuple[str, ...] = ()
    recommended: Suggestion | None = None
    candidate: Suggestion | None = None


def rate_name(quantity: Quantity, schedule: Schedule) -> str:
    """Return the name of a quantity, or of the peak of one-cycle."""
    return "peak learning rate for one-cycle" if schedule == "one-cycle" else QUANTITY_NAMES[quantity]


def recommend(
    quantity: Quantity,
    sweeps: Sequence[Sweep],
    steps: int,
    has_no_gradient: bool = False,
    momentum: float = 0.9,
    schedule: Schedule = "constant",
) -> Recommendation:
    """Return the recommendation of the sweeps for a schedule.

    ``steps`` is their full length; ``has_no_gradient`` says that no gradient reached the trained parameters;
    ``momentum`` is that of the optimizer, or its first beta.
    """
    name = rate_name(quantity, schedule)
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
    suggestion = _pooled_suggestion(quantity, curve, usable, momentum, schedule)
    if (
        suggestion.value is None
        or suggestion.low is None
        or suggestion.high is None
        or suggestion.high > _MAX_INTERVAL_RATIO * suggestion.low
    ):
        reason = f"the sweeps disagree: {suggestion}".replace("recommended: ", "")
        return _unclear_recommendation(name, (reason, "try seeds=5 or steps=200"), suggestion)
    sentence = (
        f"Take a {name} of {suggestion.value:.2g}; "
        f"the sweeps put it between {suggestion.low:.2g} and {suggestion.high:.2g}."
    )
    if any(sweep.ended in ("stopped", "interrupted") for sweep in sweeps):
        return Recommendation("stopped", f"Stopped early. {sentence}", _edge_notes(curve), suggestion, suggestion)
    if quantity == "lr" and (reasons := (*_edge_notes(curve), *_width_notes(curve))):
        reasons = (*reasons, "or train at rates on both sides: confirm=200")
        return _unclear_recommendation(name, reasons, suggestion)
    return Recommendation("clear", sentence, _edge_notes(curve), suggestion, suggestion)


def _unclear_recommendation(name: str, reasons: tuple[str, ...], candidate: Suggestion) -> Recommendation:
    """Return that the curves have no bracket."""
    return Recommendation("unclear", f"These curves give no clear {name}.", reasons, candidate=candidate)


def _edge_notes(curve: PooledCurve) -> tuple[str, ...]:
    """Return notes on a descent that extends beyond the swept values, where the loss is not worse on both sides."""
    values, notes = curve.sweep.values, []
    if curve.descent_index(_HALF_DESCENT) == 0:
        notes.append(f"the loss falls from the first value on, {values[0]:.2g}: lower start to see the whole descent")
    if curve.lowest_index == len(values) - 1:
        notes.append(f"the loss still falls at the last value, {values[-1]:.2g}: raise end to see where it stops")
    return tuple(notes)


def _width_notes(curve: PooledCurve) -> tuple[str, ...]:
    """Return a note on a bottom that is too wide, or open at its end, to put a rate into its middle."""
    values, last = curve.sweep.values, curve.ascent_index(_BOTTOM_SHARE)
    low, high = values[curve.descent_index(_BOTTOM_SHARE)], values[last]
    if last == len(values) - 1 != curve.lowest_index:
        return (f"the loss hardly rises up to the last value, {high:.2g}: raise end to see where it does",)
    if high > _MAX_BOTTOM_RATIO * max(low, values[0]):
        return (f"the loss is about the same from {low:.2g} to {high:.2g}",)
    return ()


def _pooled_suggestion(
    quantity: Quantity, curve: PooledCurve, sweeps: Sequence[Sweep], momentum: float, schedule: Schedule
) -> Suggestion:
    """Return the value of the pooled curve, with an interval over the sweeps of at least one step to either side."""
    get_value = (
        partial(_recommended_rate, momentum=momentum, schedule=schedule) if quantity == "lr" else _value_of_lowest_loss
    )
    value, each = (
        get_value(curve),
        tuple(get_value(curve_of_sweep) for curve_of_sweep in map(PooledCurve, sweeps) if curve_of_sweep.depth > 0),
    )
    step = exp(curve.log_values[-1] - curve.log_values[-2])
    quantiles = np.quantile(each or (value,), _INTERVAL_QUANTILES)
    low, high = min(float(quantiles[0]), value / step), max(float(quantiles[1]), value * step)
    return Suggestion("recommended", value, round_significant(low), round_significant(high), each)


def _recommended_rate(curve: PooledCurve, momentum: float, schedule: Schedule) -> float:
    """Return the log-center of the bottom of the curve, corrected for what a sweep overshoots.

    The bottom are the values around the lowest loss that keep 90% of the descent. A lower share would take in the rates
    at which a network whose outputs are too large only learns to make them smaller. A sweep passes each rate in one
    step, so it reaches higher rates than a training at a constant rate can use; with momentum, the effect of a rate
    shows only when the sweep is at higher ones. One-cycle ends at a low rate and can use a higher peak. The factors
    were found by training at grids of rates (benchmarks/lr_range.py, --schedules tuning).
    """
    first, last = curve.descent_index(_BOTTOM_SHARE), curve.ascent_index(_BOTTOM_SHARE)
    bottom_center = (curve.log_values[first] + curve.log_values[last]) / 2
    index = min(int(np.searchsorted(curve.log_values, bottom_center)), len(curve.log_values) - 2)
    growth = exp(float(curve.log_values[index + 1] - curve.log_values[index]))
    rate = exp(float(bottom_center)) / (_SWEEP_OVERSHOOT * _momentum_delay(momentum, growth))
    return round_significant(rate * _SCHEDULE_FACTORS[schedule])


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
