"""Convergence of a loss: flat, stuck at chance, plateau, still falling; signs of a rate too high or too low."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.loss_curves.run_summary import RunSummary, quarter_levels, segment_means
from nbdebug.statistics.time_series import change_points

MIN_STEPS = 30
USUAL_UPDATE = 1e-3  # of a step, relative to the weights (CS231n notes)
OPENING_STEPS = 12  # a learning rate that is too high raises the loss within these steps
_MIN_LATE_SHARE = 0.1  # of the gain of the second half that a loss which still falls makes in the last quarter
_LOWER_SHARE, _MIN_LATER_EVALUATIONS = 0.95, 2  # of the loss of fixed samples that has fallen
_MIN_EXPLOSIVE_UPDATE = 0.02  # smallest first update, relative to the weights, if the rate makes the loss explode


def is_flat(run: RunSummary) -> bool:
    """Return whether the loss of a run of at least 30 steps never moved beyond its noise while still large."""
    if (
        run.step_count < MIN_STEPS
        or run.has_converged
        or not run.is_finite
        or not run.loss_is_known
        or run.beats_constant
    ):
        return False
    much_remains = run.remaining_share is not None and run.remaining_share >= 0.5
    change = abs(run.full_trend.change)
    is_small = change < 0.02 * max(abs(run.start), 1e-12)
    return (
        much_remains
        and (is_small or change < 3 * run.full_trend.error)
        and abs(run.end - run.start) < smallest_change(run)
        and not _has_improved_on_fixed_samples(run)
    )


def _has_improved_on_fixed_samples(run: RunSummary, since: int = 0) -> bool:
    """Return whether the loss of the same samples fell by a twentieth after a step, below that of a constant.

    It must be lower at all later evaluations, of training and of validation samples if these are measured. The level of
    a loss that compares the samples of a batch, such as a partial likelihood, may vary more with the batch than with
    the model, and that variation hides what the model learned.
    """
    chance_share = run.chance / run.start if run.chance is not None and run.start > 0 else 1.0
    splits = [split for split in (run.train, run.val) if len(split.loss)]
    for split in splits:
        is_later = split.steps > since
        if is_later.all() or is_later.sum() < _MIN_LATER_EVALUATIONS:
            return False
        limit = min(split.loss[~is_later][-1], chance_share * split.loss[0])
        if not 0 < split.loss[is_later].max() < _LOWER_SHARE * limit:
            return False
    return bool(splits)


def smallest_change(run: RunSummary) -> float:
    """Return the difference between start and end below which a loss has not changed: its noise, or 2%."""
    return max(4 * run.end_error, 0.02 * abs(run.start))


def is_stuck_at_chance(run: RunSummary) -> bool:
    """Return whether the loss sits at that of a constant prediction and has stopped falling.

    If the scores show that nothing was learned, the level may deviate by a seventh, since the network may memorize some
    samples; without scores it must not be below chance beyond noise.
    """
    if (
        run.step_count < MIN_STEPS
        or run.chance is None
        or run.remaining_share is None
        or not run.is_finite
        or run.has_converged
    ):
        return False
    if run.beats_constant or (run.second_half.falls and -run.second_half.change > 0.015 * run.chance):
        return False
    level = run.remaining_share + 2 * run.end_error / run.chance
    return bool(
        run.remaining_share <= 1.15
        and (level >= 0.985 or (run.beats_constant is False and run.remaining_share >= 0.85))
    )


@dataclass(frozen=True)
class _Plateau:
    """A plateau: its first step, and the remaining loss as a share of that of a constant prediction."""

    start_step: int
    remaining_share: float


def find_plateau(run: RunSummary, min_remaining_share: float = 0.25) -> _Plateau | None:
    """Return the plateau if the loss, well above zero, gained nothing beyond noise since the first two thirds."""
    if (
        run.step_count < MIN_STEPS
        or run.has_converged
        or run.remaining_share is None
        or run.remaining_share < min_remaining_share
        or not run.is_finite
    ):
        return None
    if run.second_half.falls or run.second_half.rises or run.learned_share < 0.05 or find_final_descent(run):
        return None
    finite = np.flatnonzero(np.isfinite(run.loss))
    segments = segment_means(run, 48)
    change_positions = change_points(segments)
    last_change = change_positions[-1] if change_positions else 0
    if last_change > 2 * len(segments) // 3:
        return None
    start_step = int(run.steps[finite[last_change * len(finite) // max(len(segments), 1)]])
    is_hidden_by_noise = abs(run.end - run.start) < smallest_change(run)
    if is_hidden_by_noise and _has_improved_on_fixed_samples(run, start_step):
        return None
    return _Plateau(start_step, run.remaining_share)


def is_worse_than_chance(run: RunSummary) -> bool:
    """Return whether a run of at least 100 steps ended above chance, separates no classes, and has settled."""
    if run.step_count < 100 or run.remaining_share is None or run.chance is None or run.second_half.falls:
        return False
    exceeds_chance = run.end - 3 * run.end_error > 1.05 * run.chance
    return exceeds_chance and run.beats_constant is False and not run.has_converged


@dataclass(frozen=True)
class _FinalDescent:
    """Gain of the last quarter of the run, as a share of the remaining loss; ``is_steep`` if it had not slowed down."""

    gain: float
    sigmas: float
    is_steep: bool


def find_final_descent(
    run: RunSummary, min_remaining_share: float = 0.25, large_gain: float = 0.08
) -> _FinalDescent | None:
    """Return the gain of the last quarter if the loss was still falling beyond noise, and below its start."""
    if (
        run.has_converged
        or not run.is_nonnegative
        or not run.is_finite
        or run.remaining_share is None
        or run.step_count < 12
        or run.learned_share <= 0
    ):
        return None
    gain = -run.last_quarter.change / max(run.end, 1e-12)
    sigmas = -run.last_quarter.change / max(run.last_quarter.error, 1e-12)
    if gain < 0.02 or sigmas < 3 or run.remaining_share < min_remaining_share / 2:
        return None
    gains = -np.diff(quarter_levels(run))
    is_not_slowing = gains[-1] >= 0.65 * gains.max() and gains[-1] > 0
    little_learned = run.learned_share < 0.25 and run.remaining_share >= 0.8 and run.step_count >= 40
    gains_much = gain >= (large_gain / 4 if little_learned else large_gain)
    is_steep = bool(
        is_not_slowing
        and gains_much
        and sigmas >= 4
        and run.remaining_share >= min_remaining_share
        and run.learned_share < 0.75
    )
    return _FinalDescent(float(gain), float(sigmas), is_steep)


def is_falling_steeply(run: RunSummary, large_gain: float = 0.05) -> bool:
    """Return whether the last quarter gained as much as those before, or a twentieth of the remaining loss."""
    descent = find_final_descent(run)
    return descent is not None and (descent.is_steep or descent.gain >= large_gain)


@dataclass(frozen=True)
class RateTooHigh:
    """Signs of a learning rate that is too high.

    ``jump`` is the peak of two consecutive losses in the first steps over the reference, and ``highest`` the largest of
    these losses; ``first_update`` is the largest early update of a typical module, relative to its weights.
    """

    jump: float
    highest: float
    first_update: float
    diverged: bool


def find_rate_too_high(
    run: RunSummary, large_update: float = 0.15, large_jump: float = 1.5, min_remaining_share: float = 0.2
) -> RateTooHigh | None:
    """Return the signs of a rate that is too high, or None if there are none or the run converged anyway.

    Either the first steps overwrote much of the weights or raised the loss, and it never recovered; or the loss ended
    far above its start.
    """
    if run.has_converged or not run.is_nonnegative:
        return None
    jump, first_update, highest = _opening_jump(run), run.travel.first_ratio, _opening_peak(run)
    reference = max(run.start, run.chance or 0.0)
    diverged = run.end > 3 * reference and run.travel.peak_ratio > large_update and first_update > _MIN_EXPLOSIVE_UPDATE
    remaining = run.remaining_share if run.remaining_share is not None else 0.0
    if diverged or (has_exploded(run) and first_update > _MIN_EXPLOSIVE_UPDATE):
        return RateTooHigh(jump, highest, first_update, True)
    has_harmed = remaining >= min_remaining_share and (jump >= large_jump or _stays_high(run))
    if jump >= 10 * large_jump or (first_update >= large_update and has_harmed):
        return RateTooHigh(jump, highest, first_update, False)
    return None


def describe_opening(run: RunSummary, signs: RateTooHigh) -> str:
    """Return what the loss did in the first steps, as the beginning of a sentence."""
    first = float(run.loss[0])
    if signs.highest > first:
        return f"the loss rose from {first:.3g} to {signs.highest:.3g} in the first {OPENING_STEPS} steps"
    return f"the loss started at {first:.3g}"


def _opening_peak(run: RunSummary) -> float:
    """Return the highest finite loss of the first steps."""
    losses = run.loss[:OPENING_STEPS]
    return float(losses[np.isfinite(losses)].max(initial=-np.inf))


def _opening_jump(run: RunSummary) -> float:
    """Return the highest loss of two consecutive early steps over the start; one step may be a bad batch.

    The start counts as at least the loss before the first step, and half of the chance level.
    """
    losses = run.loss[:OPENING_STEPS]
    losses = losses[np.isfinite(losses)]
    reference = max(run.start, 0.5 * (run.chance or 0.0), *losses[:1])
    return float(np.minimum(losses[1:], losses[:-1]).max() / reference) if len(losses) > 1 and reference > 0 else 0.0


def _stays_high(run: RunSummary) -> bool:
    """Return whether a network of several layers stays at 90% of chance or more, or had half of each layer overwritten.

    A single layer may start far from its optimum, and long first steps that lowered the loss were no harm.
    """
    if len(run.travel.distances) < 2:
        return False
    stays_near_chance = run.remaining_share is not None and run.remaining_share >= 0.9 and not run.second_half.falls
    return stays_near_chance or (run.travel.first_ratio >= 0.5 and _opening_jump(run) >= 1)


def has_exploded(run: RunSummary) -> bool:
    """Return whether the loss grew at least a hundredfold before it became non-finite."""
    non_finite = np.flatnonzero(~np.isfinite(run.loss))
    if not len(non_finite) or non_finite[0] < 3:
        return False
    finite_losses = run.loss[: non_finite[0]]
    return bool(finite_losses[-1] > 100 * max(run.start, 1e-12))


@dataclass(frozen=True)
class RateTooLow:
    """Signs of a learning rate that is too low.

    ``travel`` is the sum of all updates relative to the weights (upper quartile over modules); ``learned_share`` is the
    share of the initial loss that is gone.
    """

    travel: float
    update_ratio: float
    learned_share: float


def find_rate_too_low(
    run: RunSummary, short_travel: float = 0.5, small_ratio: float = 3e-3, min_remaining_share: float = 0.6
) -> RateTooLow | None:
    """Return the signs of a rate that is too low, or None.

    Either no layer can have moved far, since the sum of its updates is a fraction of its norm; or the loss falls slowly
    along a straight line, and is still near chance after 100 steps, with updates below the usual size or whose sum is
    below the norm. Longer updates have moved the weights: a slow decrease has another cause then.
    """
    if run.has_converged or not run.is_nonnegative or not run.is_finite or not run.travel.distances:
        return None
    remaining, travel = run.remaining_share if run.remaining_share is not None else 1.0, run.travel
    result = RateTooLow(travel.upper_quartile, travel.median_ratio, run.learned_share)
    barely_moved = (
        travel.upper_quartile < short_travel
        and max(travel.distances) < 2 * short_travel
        and travel.median_ratio < small_ratio
    )
    if barely_moved and remaining >= min_remaining_share and run.learned_share < 0.4 and not run.full_trend.rises:
        return result
    creeps_measurably = (
        run.step_count >= 100
        and run.second_half.falls
        and max(travel.median_ratio, travel.first_ratio) < _MIN_EXPLOSIVE_UPDATE
    )
    falls_linearly_near_chance = remaining >= 0.8 and run.learned_share < 0.25 and falls_linearly(run)
    has_short_steps = travel.median_ratio < (small_ratio if travel.upper_quartile < 2 * short_travel else USUAL_UPDATE)
    is_slow = (
        travel.upper_quartile < 2 * short_travel
        and travel.median_ratio < small_ratio / 2
        and remaining >= min_remaining_share / 2
        and _second_half_gain(run) > 0.15
    )
    still_falls = run.last_quarter.change < _MIN_LATE_SHARE * run.second_half.change
    is_slow = is_slow and run.learned_share < 0.75 and still_falls
    return result if creeps_measurably and ((falls_linearly_near_chance and has_short_steps) or is_slow) else None


def _second_half_gain(run: RunSummary) -> float:
    """Return the gain of the second half of the run, as a share of the remaining loss."""
    return -run.second_half.change / max(run.end, 1e-12)


def falls_linearly(run: RunSummary) -> bool:
    """Return whether all quarters of the run gained about the same."""
    gains = -np.diff(quarter_levels(run))
    return bool(gains.min() >= 0.3 * gains.mean() and gains[-1] >= 0.5 * gains.max())
