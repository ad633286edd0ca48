"""The shape of a loss curve, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nbdebug.loss_curves import convergence, stability
from nbdebug.loss_curves.run_summary import RunSummary, summarize_run
from nbdebug.records import Record

_MIN_STEPS_FOR_SHAPE = 12
_SIGNIFICANCE = 3  # standard deviations


@dataclass(frozen=True)
class CurveShape:
    """The name of a shape, and a sentence that describes it with its numbers."""

    name: str
    sentence: str


def curve_shape(record: Record) -> CurveShape:
    """Return the first known shape that fits the loss of a run; "healthy" if the loss fell and no other shape fits."""
    loss_count = len(record.series("loss")[1])
    if loss_count == 0:
        return CurveShape("no loss", "No loss was recorded.")
    run = summarize_run(record)
    if not np.isfinite(run.loss[:3]).all():
        return CurveShape("NaN at once", "The loss is not finite from the first steps on.")
    if loss_count < _MIN_STEPS_FOR_SHAPE:
        return CurveShape("too short", f"{loss_count} steps are too few to determine a shape.")
    return next(result for describe in _SHAPE_DESCRIPTIONS if (result := describe(run)) is not None)


def _rate_too_high_shape(run: RunSummary) -> CurveShape | None:
    if signs := convergence.find_rate_too_high(run):
        if signs.diverged:
            return CurveShape("rate too high", f"The loss grew from {run.start:.3g} without bound.")
        return CurveShape(
            "rate too high", f"{convergence.describe_opening(run, signs).capitalize()}; it ended at {run.end:.3g}."
        )
    return None


def _diverging_shape(run: RunSummary) -> CurveShape | None:
    divergence = stability.find_divergence(run)
    return (
        CurveShape("diverging", f"The loss rose from {divergence.lowest:.3g} to {divergence.end:.3g}.")
        if divergence
        else None
    )


def _not_finite_shape(run: RunSummary) -> CurveShape | None:
    if np.isfinite(run.loss[-1]):
        return None
    first = int(run.steps[np.flatnonzero(np.isfinite(run.loss))[-1] + 1])
    return CurveShape("not finite", f"The loss is not finite from step {first} on.")


def _overfitting_shape(run: RunSummary) -> CurveShape | None:
    turn = stability.find_overfitting(run)
    text = "The validation loss was lowest at step {0.step} ({0.lowest:.3g}) and is {0.last:.3g} at the end."
    return CurveShape("overfitting", text.format(turn)) if turn else None


def _better_on_validation_shape(run: RunSummary) -> CurveShape | None:
    advantage = stability.find_validation_advantage(run)
    text = "In eval mode the loss is {0.val:.3g} on validation samples and {0.train:.3g} on training samples."
    return CurveShape("better on validation", text.format(advantage)) if advantage else None


def _epoch_rhythm_shape(run: RunSummary) -> CurveShape | None:
    periodicity = stability.find_epoch_periodicity(run)
    text = f"The loss repeats a pattern every {run.steps_per_epoch} steps (one epoch)."
    return CurveShape("epoch rhythm", text) if periodicity else None


def _spike_shape(run: RunSummary) -> CurveShape | None:
    if not (positions := stability.find_spikes(run)):
        return None
    is_late = positions[0] > len(run.loss) / 2 and run.lowest < 0.5 * run.start
    text = f"The loss spikes at {len(positions)} of {len(run.loss)} steps, first at {int(run.steps[positions[0]])}."
    return CurveShape("falls then spikes" if is_late else "spike", text)


def _rate_too_low_shape(run: RunSummary) -> CurveShape | None:
    if not (signs := convergence.find_rate_too_low(run)):
        return None
    text = f"The loss falls slowly from {run.start:.3g} to {run.end:.3g}; the sum of all weight updates is"
    return CurveShape("rate too low", f"{text} {signs.travel:.2g} times the norm of the weights.")


def _stuck_at_chance_shape(run: RunSummary) -> CurveShape | None:
    text = f"The loss ends at {run.end:.3g}; a constant prediction gets {run.chance or 0:.3g}."
    return CurveShape("stuck at chance", text) if convergence.is_stuck_at_chance(run) else None


def _stalled_shape(run: RunSummary) -> CurveShape | None:
    """The cause is the model's capacity if both splits agree, otherwise unknown."""
    if not (plateau := convergence.find_plateau(run)):
        return None
    text = f"The loss has not improved since step {plateau.start_step}, at {run.end_text}."
    splits_agree = len(run.val.loss) and run.val.loss[-1] < 1.2 * run.train.loss[-1]
    return (
        CurveShape("under-capacity", f"{text} The validation loss is no higher.")
        if splits_agree
        else CurveShape("stalled", text)
    )


def _still_falling_shape(run: RunSummary) -> CurveShape | None:
    descent = convergence.find_final_descent(run)
    return (
        CurveShape(
            "still falling", f"The last quarter of the run reduced the loss by {descent.gain:.0%} of its final value."
        )
        if descent
        else None
    )


def _not_decreasing_shape(run: RunSummary) -> CurveShape | None:
    has_trend = run.full_trend.change < -_SIGNIFICANCE * run.full_trend.error
    if run.end < run.start and (has_trend or run.start - run.end > _SIGNIFICANCE * run.noise):
        return None
    text = f"The loss went from {run.start:.3g} to {run.end:.3g}; it did not fall by more than its noise."
    return CurveShape("not decreasing", text)


def _healthy_shape(run: RunSummary) -> CurveShape:
    return CurveShape("healthy", f"The loss fell from {run.start:.3g} to {run.end:.3g}.")


_SHAPE_DESCRIPTIONS: tuple[Callable[[RunSummary], CurveShape | None], ...] = (
    *(
        _rate_too_high_shape,
        _diverging_shape,
        _not_finite_shape,
        _overfitting_shape,
        _better_on_validation_shape,
        _epoch_rhythm_shape,
        _spike_shape,
        _rate_too_low_shape,
        _stuck_at_chance_shape,
        _stalled_shape,
        _still_falling_shape,
        _not_decreasing_shape,
        _healthy_shape,
    ),
)
