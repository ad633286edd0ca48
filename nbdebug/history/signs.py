"""Signs of trouble in the curves of a history, judged by the same thresholds as a watched run.

Each sign is a finding with the code of the rule that judges it in a watched run, whose page gives the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from nbdebug.finding import Finding, Location
from nbdebug.history.curves import Curves
from nbdebug.loss_curves import convergence, stability
from nbdebug.loss_curves.run_summary import RunSummary

MIN_VALUES = 8  # of the training loss, for the signs that need its shape
_MIN_EVALUATIONS = 4
_GAP, _SCORE_GAP = 0.5, 0.1  # validation loss over training loss, as a share; lead of the training accuracy
_HALF_WAY = 2  # a gap counts if validation has not improved in the second half of the run
_POOR_ACCURACY = 0.85
_ABSURD_CROSS_ENTROPY = 12.0  # nats, the loss of a uniform prediction of 160,000 classes
_FIRST_EPOCH_EXCESS = 20  # of the loss of the first epoch over that of the third to sixth
_JUMP, _MIN_JUMPS, _MIN_JUMP_LEVEL = 1.5, 2, 0.02  # from one epoch to the next; of the median of the curve
_EASY_SHARE = 0.8  # validation loss over training loss, of a validation that is easier
_LR = "optimizer.param_groups[0]['lr'] /= 10"


@dataclass(frozen=True)
class Evidence:
    """The curves of a history, and the summary of the record that stands for them."""

    curves: Curves
    run: RunSummary


def find_signs(evidence: Evidence) -> list[Finding]:
    """Return the signs that the curves show; those that need the shape of the loss only if it has enough values."""
    is_long = len(evidence.run.loss) >= MIN_VALUES and bool(np.isfinite(evidence.run.loss).any())
    checks = [*_ALWAYS, *(_OF_SHAPES if is_long else ())]
    return [finding for check in checks for finding in check(evidence)]


def _non_finite(evidence: Evidence) -> Iterator[Finding]:
    curves, run = evidence.curves, evidence.run
    for name, loss, steps in (("training", run.loss, run.steps), ("validation", run.val.loss, run.val.steps)):
        bad = np.flatnonzero(~np.isfinite(loss))
        if not len(bad):
            continue
        first = curves.place(steps[bad[0]])
        before = f"; before it the loss was {loss[bad[0] - 1]:.4g}" if bad[0] else ""
        exploded = name == "training" and convergence.has_exploded(run)
        yield _finding(
            "T603",
            "non-finite-loss",
            "error",
            f"The {name} loss is NaN or Inf at {len(bad)} of {len(loss)} values, first at {first}{before}.",
            "The loss grew a hundredfold before: the learning rate is too high, or gradients are not clipped."
            if exploded
            else "A logarithm, a division or a square root got zero, an input is NaN, or a step was too large.",
            "with dbg.watch(): ...   # your loop: it names the operation that made the first NaN",
            step=int(steps[bad[0]]),
        )
        return


def _diverging(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    divergence = stability.find_divergence(run if run.chance is not None else replace(run, chance=run.start))
    if divergence is None:
        return
    yield _finding(
        "T602",
        "diverging-loss",
        "error",
        f"The training loss rose from {run.start:.4g} to {divergence.end:.4g}; its lowest level was "
        f"{divergence.lowest:.4g}.",
        "The learning rate is too high, the sign of the loss is wrong, or gradients accumulate. A loss that is meant "
        "to rise, as with adversaries, is no fault.",
        _LR,
        explains=("T604", "T605", "T606"),
    )


def _rate_too_high(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    signs = convergence.find_rate_too_high(run)
    if signs is not None:
        text = f"At the start of training {convergence.describe_opening(run, signs)}; it ended at {run.end:.4g}."
    else:
        text = _early_explosion_text(evidence)
    if not text:
        return
    yield _finding(
        "O501",
        "lr-too-high",
        "error",
        text,
        "The learning rate is too high, so that the first updates overwrote the initial weights; or the targets are "
        "far from the scale of the initial outputs.",
        _LR,
        explains=("T602", "T604", "T605", "T606", "T609"),
    )


def _early_explosion_text(evidence: Evidence) -> str:
    """Return a loss that only an explosion within the first epoch explains: a mean over it hides the steps."""
    run = evidence.run
    loss = run.loss[np.isfinite(run.loss)]
    middle = float(np.median(loss))
    if evidence.curves.scores_are_accuracies and max(middle, float(loss[0])) > _ABSURD_CROSS_ENTROPY:
        level = max(middle, float(loss[0]))
        return f"The training loss reaches {level:.4g}, far above that of a uniform prediction: the outputs exploded."
    next_level = float(np.median(loss[2:6]))
    if evidence.curves.unit == "epoch" and loss[0] > _FIRST_EPOCH_EXCESS * next_level > 0:
        ratio = loss[0] / next_level
        return f"The mean training loss of the first epoch is {loss[0]:.4g}, {ratio:,.0f} times that of the next ones."
    return ""


def _oscillating(evidence: Evidence) -> Iterator[Finding]:
    oscillation = stability.find_oscillation(evidence.run)
    if oscillation is not None:
        text = (
            f"The training loss rose {oscillation.rises} times by a quarter of its level or more, by at most "
            f"{oscillation.largest:.0%}, and does not settle."
        )
    else:
        text = _jumps_text(evidence)
    if not text:
        return
    yield _finding(
        "T604",
        "oscillating-loss",
        "warning",
        text,
        "The learning rate is too high, or gradients accumulate between steps.",
        _LR,
        explains=("T605", "T606", "T609", "T614"),
    )


def _jumps_text(evidence: Evidence) -> str:
    """Return the jumps between epochs, whose means hardly rise in a healthy run; the first third is left out."""
    loss = evidence.run.loss
    is_positive = bool(np.isfinite(loss).all() and (loss > 0).all())
    if evidence.curves.unit != "epoch" or not is_positive or stability.find_overfitting(evidence.run) is not None:
        return ""
    late = loss[len(loss) // 3 :]
    ratios = late[1:] / late[:-1]
    is_jump = (ratios > _JUMP) & (late[1:] > max(_MIN_JUMP_LEVEL * float(loss[0]), float(np.median(loss))))
    if is_jump.sum() < _MIN_JUMPS:
        return ""
    return (
        f"The mean training loss rose {int(is_jump.sum())} times from one epoch to the next by half or more, at most "
        f"{ratios.max():.3g}-fold."
    )


def _spikes(evidence: Evidence) -> Iterator[Finding]:
    curves, run = evidence.curves, evidence.run
    positions = stability.find_spikes(run)
    if not positions:
        return
    first = curves.place(run.steps[positions[0]])
    yield _finding(
        "T605",
        "loss-spike",
        "warning",
        f"The training loss spikes at {len(positions)} of {len(run.loss)} values, first at {first}.",
        "Single batches have large gradients: outliers in the data, or a rate near the limit of stability.",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # before optimizer.step()",
        step=curves.known_step(run.steps[positions[0]]),
    )


def _flat(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    if convergence.is_stuck_at_chance(run):
        text = f"The training loss ends at {run.end:.4g}; a constant prediction gets {run.chance:.4g}."
        name, code = "stuck-at-chance", "T607"
    elif convergence.is_flat(run):
        text = (
            f"The training loss went from {run.start:.4g} to {run.end:.4g}: it did not change by more than its noise."
        )
        name, code = "flat-loss", "T601"
    else:
        return
    yield _finding(
        code,
        name,
        "error",
        text,
        "The model does not learn: the rate is far too high or too low, the gradient does not reach the weights, or "
        "the inputs do not belong to the targets.",
        "dbg.checkup()   # then dbg.overfit(): can the model learn sixteen samples?",
        explains=("T606", "T614"),
    )


def _underfitting(evidence: Evidence) -> Iterator[Finding]:
    run, scores = evidence.run, (evidence.run.train, evidence.run.val)
    is_measured = evidence.curves.scores_are_accuracies and all(len(s.score) >= _MIN_EVALUATIONS for s in scores)
    if not is_measured or _creeps(run):
        return
    train, val = run.train.score, run.val.score
    quarter = max(1, len(train) // 4)
    gain = float(train[-quarter:].max() - train[:-quarter].max())
    if max(train[-1], val.max()) >= _POOR_ACCURACY or train[-1] - val[-1] > _SCORE_GAP or gain > _SCORE_GAP / 2:
        return
    yield _finding(
        "T610",
        "underfitting",
        "warning",
        f"The accuracy is {train[-1]:.3g} on training and {val[-1]:.3g} on validation samples, and the last quarter of "
        f"the run gained {max(gain, 0):.2g}.",
        "The model is too small, too strongly regularized or trained at an unsuitable rate, or labels are noise.",
        "dbg.treatments()   # which small change cures it?",
        explains=("T606", "T611", "T614"),
    )


def _plateau(evidence: Evidence) -> Iterator[Finding]:
    curves, run = evidence.curves, evidence.run
    plateau = convergence.find_plateau(run)
    if plateau is None:
        return
    yield _finding(
        "T606",
        "plateau",
        "note",
        f"The training loss has not improved by more than its noise since {curves.place(plateau.start_step)}; it is at "
        f"{run.end_text}.",
        "The loss is at the noise level of the task, the learning rate is too high for the end of training, or the "
        "model is too small.",
        "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)",
        step=curves.known_step(plateau.start_step),
    )


def _slow(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    if stability.find_overfitting(run) is not None or run.has_converged:
        return
    descent = convergence.find_final_descent(run)
    creeps = _creeps(run)
    if descent is None and not creeps:
        return
    is_steep = creeps or (descent is not None and descent.is_steep)
    gain = (
        f"the last quarter reduced it by {descent.gain:.0%}" if descent else f"it lost {run.learned_share:.1%} in all"
    )
    yield _finding(
        "T614",
        "stopped-early",
        "warning" if is_steep else "note",
        f"The training loss was still falling at the end: {gain}{' and was no slower than before' * is_steep}.",
        "The learning rate is too low, or training is too short.",
        "dbg.lr_range()   # a higher rate; or train for longer",
    )


def _creeps(run: RunSummary) -> bool:
    """Return whether the loss falls along a straight line and has lost less than a quarter."""
    return run.second_half.falls and 0 < run.learned_share < 0.25 and convergence.falls_linearly(run)


def _overfitting(evidence: Evidence) -> Iterator[Finding]:
    curves, run = evidence.curves, evidence.run
    turn = stability.find_overfitting(run)
    if turn is not None:
        yield _finding(
            "T609",
            "overfitting",
            "warning",
            f"The validation loss was lowest at {curves.place(turn.step)} ({turn.lowest:.4g}) and is {turn.last:.4g} "
            f"at the end, while the training loss decreased to {turn.train:.4g}.",
            "From then on the network memorizes its training samples.",
            "Keep the weights of the best epoch; use more data, augmentation, weight decay or dropout.",
            step=curves.known_step(turn.step),
        )
    elif text := _gap_text(run):
        yield _finding(
            "T609",
            "generalization-gap",
            "warning",
            text,
            "The network fits its training samples better than others, and validation no longer gains from it.",
            "Use more data, augmentation, weight decay or dropout; check that both splits come from the same source.",
        )


def _gap_text(run: RunSummary) -> str:
    """Return the gap between both splits if it is large and validation has not improved in the second half."""
    train, val = run.train.loss, run.val.loss
    if len(val) < _MIN_EVALUATIONS or not np.isfinite([*train, *val]).all() or (val <= 0).any():
        return ""
    if run.val.last_score is not None and run.val.last_score >= 0.97:
        return ""
    half = len(val) // _HALF_WAY
    has_stopped = val[half:].min() > 0.97 * val[:half].min()
    gap = float(np.mean(val[-2:]) - np.mean(train[-2:]))
    is_wide = gap > _GAP * np.mean(val[-2:]) and train[-1] < 0.7 * train[0]
    scores = run.train.last_score, run.val.last_score
    lead = scores[0] - scores[1] if scores[0] is not None and scores[1] is not None else 0.0
    if not has_stopped or not (is_wide or (lead > _SCORE_GAP and gap > 0)):
        return ""
    by_score = f" (accuracy {scores[0]:.3g} and {scores[1]:.3g})" if lead else ""
    return (
        f"The training loss ends at {train[-1]:.4g} and the validation loss at {val[-1]:.4g}{by_score}; validation has "
        "not improved in the second half of the run."
    )


def _validation_better(evidence: Evidence) -> Iterator[Finding]:
    train, val = evidence.run.train.loss[-3:], evidence.run.val.loss[-3:]
    advantage = stability.find_validation_advantage(evidence.run)
    is_easier = len(val) == 3 and bool((val > 0).all() and (val < _EASY_SHARE * train).all())
    if advantage is None and not is_easier:
        return
    yield _finding(
        "T611",
        "validation-better",
        "warning" if advantage is not None else "note",
        f"The validation loss is {val[-1]:.4g} and the training loss {train[-1]:.4g}.",
        "Validation samples are easier or are copies of training samples, dropout or augmentation is strong, or both "
        "losses are computed differently.",
        "dbg.data()   # overlaps and drift between the splits",
    )


def _finding(
    code: str,
    name: str,
    severity: str,
    message: str,
    cause: str,
    fix: str,
    *,
    step: int | None = None,
    explains: tuple[str, ...] = (),
) -> Finding:
    """Return a finding; ``step`` is given for curves of steps, since a record counts an epoch as many."""
    where = Location(step=step)
    return Finding(
        message,
        where,
        cause,
        fix,
        explains=explains,
        code=code,
        name=name,
        severity=severity,  # type: ignore[arg-type]
    )


_Check = Callable[[Evidence], Iterator[Finding]]
_ALWAYS: tuple[_Check, ...] = (_non_finite, _overfitting, _underfitting, _validation_better)
_OF_SHAPES: tuple[_Check, ...] = (_rate_too_high, _diverging, _oscillating, _spikes, _flat, _plateau, _slow)
