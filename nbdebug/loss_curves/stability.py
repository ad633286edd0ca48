"""Instability of a loss: divergence, a fall without end, oscillation, spikes, epoch patterns and overfitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.loss_curves.convergence import has_exploded
from nbdebug.loss_curves.run_summary import HIGH_SCORE, RunSummary
from nbdebug.records import Record
from nbdebug.statistics.time_series import Curve, Periodicity, find_periodicity, spike_positions, standard_error

_MIN_STEPS = 30
_SEGMENTS = 16  # of a run, whose mean losses show an oscillation
_SHORT_BATCH_SHARE = 0.5  # of the samples of the other batches
MIN_EVALUATIONS = 4  # of which two follow the lowest validation loss
_EARLY_RISE_FACTOR = 3.0  # of the rise that a single measurement after the lowest one must show
_SMALL_SPLIT = 100  # samples
_MIN_SCORE_GAIN = 0.1  # over the most frequent class, of a model that learned something for other samples
_MIN_FURTHER_FALL = 0.03  # of a signed training loss after the turn, as a share of the fall of the validation loss

_MIN_LEARNED_SCORE = 0.9  # of validation targets, of a model that learned them well
_MAX_UNEXPLAINED_EXCESS = 1 / 3  # of the training loss over that of validation, without a higher variance of targets
_UNBOUNDED_FACTOR, _MIN_LOSSES = 1e4, 3
_ACCELERATED_FACTOR, _ACCELERATION, _MIN_ACCELERATED_LOSSES = 20.0, 1.2, 20
_MARGIN_FACTOR, END_SHARE = 3.0, 0.1  # of a homogeneous loss: fall relative to its start, and the end of the run


@dataclass(frozen=True)
class _Divergence:
    """The lowest loss and the final loss."""

    lowest: float
    end: float


def find_divergence(run: RunSummary) -> _Divergence | None:
    """Return the divergence if the loss rises over the whole run and its second half, above start and chance.

    For a loss that cannot be compared with a constant prediction, such as that of a GAN or of moving targets, only a
    tenfold growth counts.
    """
    if run.step_count < 20:
        return None
    if has_exploded(run):
        return _Divergence(run.lowest, float("inf"))
    reference = max(run.start, run.chance or -np.inf)
    margin = abs(reference) * (0.1 if run.chance is not None else 9.0) + 4 * run.end_error
    has_risen = run.end > reference + margin and run.end > run.lowest + 4 * run.end_error
    is_growing = run.full_trend.change > 2 * run.full_trend.error and run.second_half.change > 0
    return _Divergence(run.lowest, run.end) if has_risen and is_growing else None


@dataclass(frozen=True)
class _Oscillation:
    """Number of rises by a good part of the loss level, and the largest of them relative to the level."""

    rises: int
    largest: float


def find_oscillation(run: RunSummary, min_rise: float = 0.25, min_count: int = 3) -> _Oscillation | None:
    """Return the oscillation if the loss of a run of at least 60 steps swings beyond noise without settling."""
    if (
        run.step_count < 60
        or len(run.loss) < _SEGMENTS
        or not run.loss_is_known
        or run.has_converged
        or run.remaining_share is None
        or run.remaining_share < 0.2
        or not run.is_finite
    ):
        return None
    segments = np.array_split(run.loss, _SEGMENTS)[3:]
    levels = np.array([segment.mean() for segment in segments])
    errors = np.array([standard_error(segment) for segment in segments])
    steps, margins = np.diff(levels), 3 * np.hypot(errors[1:], errors[:-1])
    is_rise = (steps > margins) & (steps > min_rise * levels[:-1])
    has_settled = levels[-4:].mean() < 0.6 * levels[:4].mean()
    relative_rises = steps[is_rise] / levels[:-1][is_rise]
    return (
        _Oscillation(int(is_rise.sum()), float(relative_rises.max()))
        if is_rise.sum() >= min_count and not has_settled
        else None
    )


def find_spikes(run: RunSummary) -> list[int]:
    """Return positions of losses that exceed their neighbors, twice the initial loss, and three times a high quantile.

    The quantile leaves out one step per epoch. The opening is skipped, where the rate may be too high, and so is the
    last batch of each epoch if it is short: the mean of few samples varies.
    """
    finite_losses = run.loss[np.isfinite(run.loss)]
    if not run.is_nonnegative or len(finite_losses) < len(run.loss) / 2:
        return []
    quantile = float(
        np.clip(1 - 1.5 / max(run.steps_per_epoch, 1), 0.9, 0.99)
    )  # one batch of each epoch may be an outlier
    threshold = max(2 * float(np.median(finite_losses[:12])), 3 * float(np.quantile(finite_losses, quantile)))
    opening = max(12, len(run.loss) // 20)
    positions = [position for position in spike_positions(run.loss, threshold) if position >= opening]
    return [position for position in positions if not _is_short_batch(run, position)]


def _is_short_batch(run: RunSummary, position: int) -> bool:
    """Return whether a step used the last batch of an epoch, with at most half as many samples as the others."""
    is_last = run.steps_per_epoch > 0 and int(run.steps[position]) % run.steps_per_epoch == 0
    return is_last and run.last_batch_share <= _SHORT_BATCH_SHARE


def _forgets_within_epoch(run: RunSummary, eval_count: int = 3) -> bool:
    """Return whether fixed training samples between epochs cost three times as much as batches during training."""
    train_losses = run.train.loss[1:][-eval_count:]
    return len(train_losses) > 0 and bool(
        (train_losses > 3 * np.median(run.loss[-eval_count * run.steps_per_epoch :])).all()
    )


def _retains_within_epoch(run: RunSummary, eval_count: int = 3) -> bool:
    """Return whether fixed samples cost no more than the batches of the epochs: some batches are harder."""
    train_losses = run.train.loss[1:][-eval_count:]
    return len(train_losses) > 0 and bool(
        np.median(train_losses) <= np.mean(run.loss[-eval_count * run.steps_per_epoch :])
    )


def find_epoch_periodicity(
    run: RunSummary,
    min_agreement: float = 0.6,
    min_swing: float = 0.5,
    min_slow_share: float = 0.5,
    min_share: float = 0.05,
) -> Periodicity | None:
    """Return a slow pattern that the loss repeats every epoch, if it is large relative to the loss and its start.

    A fixed order of similar batches repeats only the fast differences between them, which do not count. Nor does a
    smaller last batch: a loop may divide its loss by other numbers.
    """
    if not run.is_finite or not len(run.loss) or np.diff(run.steps).max(initial=1) > 1:
        return None
    periodicity = find_periodicity(_without_short_batches(run), run.steps_per_epoch)
    if (
        periodicity is None
        or periodicity.agreement < min_agreement
        or _retains_within_epoch(run)
        or (periodicity.slow_share < min_slow_share and not _forgets_within_epoch(run))
    ):
        return None
    level, reference = max(float(np.median(run.loss)), 1e-12), run.reference or 0.0
    smallest = max(min_swing * level, 4 * run.noise / np.sqrt(periodicity.periods), min_share * reference)
    return periodicity if periodicity.amplitude > smallest else None


def _without_short_batches(run: RunSummary) -> Curve:
    """Return the loss in which the batch before it takes the place of a smaller last batch of an epoch."""
    loss = run.loss.copy()
    if run.last_batch_share < 1 < run.steps_per_epoch:
        last = np.arange(run.steps_per_epoch - 1, len(loss), run.steps_per_epoch)
        loss[last] = loss[last - 1]
    return loss


@dataclass(frozen=True)
class ValidationTurn:
    """The lowest validation loss with its step, and the validation and training loss at the end.

    ``scale`` is the loss of a constant prediction, or else that before training; for a loss with negative values it is
    the fall from there to the lowest loss, since their zero is no level that a loss could be a share of.
    """

    step: int
    lowest: float
    last: float
    train: float
    scale: float


def find_overfitting(run: RunSummary, rise: float = 0.1, evals: int = MIN_EVALUATIONS) -> ValidationTurn | None:
    """Return the turn if the validation loss rose for at least two measurements while the training loss kept falling.

    Uses fixed samples if they were measured often enough, else the user's own validation; without either, a large rise
    in the last measurement, or a validation loss that ends above its start and above chance. A high score rules
    overfitting out.
    """
    if run.val.last_score is not None and run.val.last_score >= HIGH_SCORE:
        return None
    curves = [(steps, train, val) for steps, train, val in _split_curves(run) if _is_complete(train, val)]
    for steps, train, val in curves:
        if len(val) >= evals:
            turn = _find_turn(run, steps, train, val, rise)
            return None if turn is None or _ends_with_earlier_weights(run, turn) else turn
    early = (_find_early_turn(run, *curve, _EARLY_RISE_FACTOR * rise) for curve in curves)
    return next(filter(None, early), None) or _find_worsening(run)


def has_gap_of_few_evaluations(run: RunSummary) -> bool:
    """Return whether the validation loss was measured too rarely to show a rise, and ends far above training loss.

    One that was lowest before training does not count: such a model never learned anything for validation samples.
    """
    curves = [curve for curve in _split_curves(run) if _is_complete(*curve[1:]) and len(curve[2]) > 1]
    if any(len(val) >= MIN_EVALUATIONS for _, _, val in curves):
        return False
    return any(steps[val.argmin()] > 0 and _has_gap(run, train, val, val[-1]) for steps, train, val in curves)


def _is_complete(train: Curve, val: Curve) -> bool:
    return len(train) == len(val) and bool(np.isfinite([*train, *val]).all())


def _has_gap(run: RunSummary, train: Curve, val: Curve, final: float) -> bool:
    """Return whether the final validation loss is far above the training loss at the end."""
    gap = final - train[-1]
    if _is_signed(train, val):
        return bool(gap > 0.1 * _rise_scale(run, train, val))
    return bool(gap > max(0.5 * final, 0.1 * (run.chance or 0.0)))


def _ends_with_earlier_weights(run: RunSummary, turn: ValidationTurn) -> bool:
    """Return whether fixed samples have a lower loss at the end than after the turn: the best weights were loaded."""
    after_turn = run.val.loss[:-1][run.val.steps[:-1] > turn.step]
    return len(after_turn) > 0 and bool(run.val.loss[-1] < after_turn[-1])


def _split_curves(run: RunSummary) -> list[tuple[Curve, Curve, Curve]]:
    """Return steps, training and validation loss of the fixed samples, and of the user's own loop."""
    user_validation = run.user_validation
    return [
        (run.val.steps, run.train.loss, run.val.loss),
        (user_validation.steps, user_validation.score, user_validation.loss),
    ]


def _noise_share(run: RunSummary) -> float:
    """Return two standard errors of the rise of a small validation split, as a share of the loss of a constant.

    The losses of single samples change by about half of that loss in either direction while training goes on, so a few
    samples can raise the mean of a small split. The half is a choice.
    """
    return 1 / float(np.sqrt(run.val_samples)) if 0 < run.val_samples < _SMALL_SPLIT else 0.0


def _find_turn(run: RunSummary, steps: Curve, train: Curve, val: Curve, rise: float) -> ValidationTurn | None:
    """Return the turn if training and validation curve diverge; the rise is relative to the minimum and to chance.

    A validation loss that was lowest before training never improved, so it did not turn.
    """
    lowest, scale, is_signed = int(val.argmin()), _rise_scale(run, train, val), _is_signed(train, val)
    after = val[lowest + 1 :]
    if len(after) < 2 or lowest > 0.75 * (len(val) - 1) or scale <= 0 or steps[lowest] == 0:
        return None
    final = float(after[-2:].mean())
    slope = np.polyfit(np.arange(len(val) - lowest), val[lowest:], 1)[0]
    level = scale if is_signed else val[lowest]
    has_risen = final - val[lowest] > max(rise * level, max(0.03, _noise_share(run)) * scale) and slope > 0
    if is_signed:
        training_fell = train[lowest] - train[-1] > _MIN_FURTHER_FALL * scale
    else:
        training_fell = train[-1] < 0.7 * train[lowest] or train[-1] < 0.02 * scale
    has_gap = _has_gap(run, train, val, final) and (is_signed or final - train[-1] > 0.1 * scale)
    if not (has_risen and training_fell and has_gap):
        return None
    return ValidationTurn(int(steps[lowest]), float(val[lowest]), final, float(train[-1]), scale)


def _is_signed(train: Curve, val: Curve) -> bool:
    """Return whether losses are negative, as a negative similarity or the logarithm of a density is."""
    return bool(min(train.min(), val.min()) < 0)


def _rise_scale(run: RunSummary, train: Curve, val: Curve) -> float:
    """Return what a rise of the validation loss is compared with: chance or the start, or the fall of a signed loss."""
    start = float(val[0] if run.chance is None else run.chance)
    return start - float(val.min()) if _is_signed(train, val) else start


def _find_early_turn(run: RunSummary, steps: Curve, train: Curve, val: Curve, rise: float) -> ValidationTurn | None:
    """Return the turn if only the last measurement follows the lowest validation loss, and the training loss halved.

    The same samples are measured with other weights, so a rise of a third is no noise of the samples.
    """
    if len(val) < 2 or int(val.argmin()) != len(val) - 2 or steps[-2] == 0:
        return None
    scale, is_signed = _rise_scale(run, train, val), _is_signed(train, val)
    if scale <= 0:
        return None
    level = scale if is_signed else val[-2]
    has_risen = val[-1] - val[-2] > max(rise * level, max(0.1, _noise_share(run)) * scale)
    training_fell = train[-2] - train[-1] > _MIN_FURTHER_FALL * scale if is_signed else train[-1] < 0.5 * train[-2]
    if has_risen and training_fell and _has_gap(run, train, val, val[-1]):
        return ValidationTurn(int(steps[-2]), float(val[-2]), float(val[-1]), float(train[-1]), scale)
    return None


def _find_worsening(run: RunSummary) -> ValidationTurn | None:
    """Return the turn if the validation loss ends above its value before training while the training loss fell.

    The minimum between both was not measured. The score shows that there was one: the model learned something that
    holds for validation samples.
    """
    train, val = run.train.loss, run.val.loss
    if len(val) < 2 or len(train) != len(val) or not np.isfinite([*train, *val]).all() or run.chance is None:
        return None
    score, majority = run.val.last_score, run.majority
    generalizes = score is not None and bool(majority) and score > (majority or 0.0) + _MIN_SCORE_GAIN
    has_worsened = (
        generalizes
        and val[-1] > (1 + max(0.15, _noise_share(run))) * max(val[0], run.chance)
        and train[-1] < 0.5 * run.chance
    )
    return (
        ValidationTurn(int(run.val.steps[0]), float(val[0]), float(val[-1]), float(train[-1]), run.chance)
        if has_worsened
        else None
    )


@dataclass(frozen=True)
class _ValidationAdvantage:
    """Final training and validation loss of fixed samples in eval mode, and whether the training score is poor."""

    train: float
    val: float
    training_is_poor: bool


def find_validation_advantage(run: RunSummary) -> _ValidationAdvantage | None:
    """Return both losses if validation became easier than training by half at each of the last measurements."""
    train, val = run.train.loss, run.val.loss
    if len(val) < 2 or len(train) != len(val) or not np.isfinite([*train, *val]).all() or not run.is_nonnegative:
        return None
    eval_count = min(3, len(val) - 1)
    ratio, clear_gap = (0.5, 0.2) if eval_count == 3 else (0.35, 0.25)
    reference = run.chance if run.chance is not None else train[0]
    initial_ratio = min(1.0, float(val[0] / train[0])) if train[0] > 0 else 1.0
    train_losses, val_losses = train[-eval_count:], val[-eval_count:]
    is_easier = bool(
        ((val_losses < ratio * initial_ratio * train_losses) & (train_losses - val_losses > 0.1 * reference)).all()
    )
    gap = _score_gap(run, eval_count)
    has_low_score = run.train.last_score is not None and run.train.last_score < 0.85
    training_is_poor = gap > 0.1 and has_low_score and not _differs_by_noise(run)
    return (
        _ValidationAdvantage(float(train[-1]), float(val[-1]), training_is_poor)
        if is_easier or (gap > clear_gap and training_is_poor)
        else None
    )


def _differs_by_noise(run: RunSummary) -> bool:
    """Check whether only noise tells training targets from those of validation, and the model learned the latter well.

    The squared error of training samples then exceeds that of validation samples by as much as the variance of their
    targets, which is the error over its unexplained share. Targets of other samples would have the same variance.
    """
    train, val = run.train.last_score, run.val.last_score
    if train is None or val is None or run.majority != 0 or not _MIN_LEARNED_SCORE <= val < 1 or train >= 1:
        return False
    excess = float(run.train.loss[-1] - run.val.loss[-1])
    explained = [float(part.loss[-1]) * score / (1 - score) for part, score in ((run.train, train), (run.val, val))]
    return excess > 0 and abs(explained[0] - explained[1]) < _MAX_UNEXPLAINED_EXCESS * excess


def _score_gap(run: RunSummary, eval_count: int) -> float:
    """Return the smallest lead of the validation score over the last measurements, or 0.

    An R² below 0 counts as 0: how far both are below a constant prediction says nothing about the samples.
    """
    train, val = (np.maximum(split.score[-eval_count:], 0.0) for split in (run.train, run.val))
    return max(0.0, float((val - train).min())) if len(train) == len(val) == eval_count else 0.0


def find_unbounded_decrease(record: Record, *, may_accelerate: bool) -> tuple[int, float, float] | None:
    """Return step and value of the lowest loss, and the size of the first one, if the loss is unbounded below.

    With ``may_accelerate``, a loss that falls faster and faster counts earlier; that of a critic may do so.
    """
    steps, losses = record.series("loss")
    finite_losses = losses[np.isfinite(losses)].astype(np.float64)
    if len(finite_losses) < _MIN_LOSSES:
        return None
    initial = max(float(np.abs(finite_losses[:_MIN_LOSSES]).min()), 1.0)
    lowest = float(finite_losses.min())
    is_accelerated = may_accelerate and _accelerates(finite_losses)
    factor = _ACCELERATED_FACTOR if is_accelerated else _UNBOUNDED_FACTOR
    return (
        (int(steps[np.isfinite(losses)][finite_losses.argmin()]), lowest, initial)
        if lowest < -factor * initial
        else None
    )


def _accelerates(losses: NDArray[np.float64]) -> bool:
    """Check whether the loss falls faster in each quarter of the run than in the previous one."""
    if len(losses) < _MIN_ACCELERATED_LOSSES:
        return False
    falls = -np.diff([part.mean() for part in np.array_split(losses, 5)])
    return bool((falls > 0).all() and (falls[1:] > _ACCELERATION * falls[:-1]).all())


def find_end_below_zero(record: Record) -> float | None:
    """Return the median of the last losses if it lies below zero by a multiple of the size of the first ones."""
    losses = record.series("loss")[1].astype(np.float64)
    losses = losses[np.isfinite(losses)]
    if len(losses) < _MIN_LOSSES:
        return None
    last = float(np.median(losses[-max(_MIN_LOSSES, int(END_SHARE * len(losses))) :]))
    return last if last < -_MARGIN_FACTOR * max(float(np.abs(losses[:_MIN_LOSSES]).max()), 1.0) else None
