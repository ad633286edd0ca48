"""Conclusions from a LoopSummary: the assumptions of findings that a loop has disproved.

A rule names its assumptions in ``Finding.assumes``.
"""

from __future__ import annotations

import numpy as np

from nbdebug.exceptions import NotChecked
from nbdebug.loop_monitor.summary import LoopSummary
from nbdebug.loss_curves.run_summary import RunSummary, get_run_summary
from nbdebug.records import Record

LOSS_RAISES, LOSS_OPERANDS_MISMATCH, LOSS_TARGETS_MISMATCH = (
    "the loss raises",
    "operands of the loss",
    "targets of the loss",
)
MODEL_RAISES = "the model raises for inputs of the loader"
LOSS_BROADCASTS = "the loss of the loop broadcasts its operands"
LOSS_DETACHED, LABELS_OUT_OF_RANGE = "no loss of the loop reaches a parameter", "the loss rejects labels of the loader"
INPUTS_UNCHANGED = "the model receives the inputs as the loader yields them"
OUTPUT_VALUES_UNCHANGED = "the loss receives the values that the model returns"
TARGET_VALUES_UNCHANGED = "the loss receives the values of the loader's targets"
OPERAND_VALUES_UNCHANGED = "the loss receives the values of the model's outputs and of the loader's targets"
LOSS_SUMMED = "a sum over the batch sets the size of the steps"
LABELS_UNRELATED = "labels are unrelated to the inputs"
LABELS_UNPREDICTABLE = "no network predicts the labels of other samples"
LEARNS_POORLY = "the model learns less than the data allow"
INITIAL_SCALE_HINDERS = "the scale of the initial weights hinders training"
_RECOVERED_SHARE = 0.1  # of the loss of a constant prediction
_MIN_GAIN = 0.1  # of a score or loss over that of a constant prediction
_SIGMAS, _MIN_VALIDATION_SAMPLES = 2.0, 100  # the rule on wrong labels needs as many rows
_CLEAR_SHARE = 0.75  # of the validation loss of a constant prediction, which a network of random labels exceeds


def parameter_not_updated(parameter: str) -> str:
    """Return the assumption that no optimizer updates a parameter."""
    return f"{parameter} is not updated"


def parameter_not_reached(parameter: str) -> str:
    """Return the assumption that no loss reaches a parameter."""
    return f"{parameter} is not reached"


def argument_unchanged(number: int) -> str:
    """Return the assumption that the model receives a tensor argument, by its number, as the loader yields it."""
    return f"tensor argument {number} comes from the loader"


def validation_labels_wrong(percent: int) -> str:
    """Return the assumption that a share of the validation labels is wrong, so no network predicts all of them."""
    return f"{percent}% of the validation labels are wrong"


def disproved_assumptions(summary: LoopSummary, record: Record) -> frozenset[str]:
    """Return the assumptions that the loop has disproved.

    A loop may reshape outputs, use other targets, pass arguments or step optimizers that the setup does not show.
    """
    assumptions = {parameter_not_updated(name) for name in summary.changed | summary.never_with_gradient} | {
        parameter_not_reached(name) for name in summary.with_gradient
    }
    if summary.backward_passes:
        assumptions |= {LOSS_RAISES, MODEL_RAISES}
    if summary.reaches_model:
        assumptions.add(LOSS_DETACHED)
    if summary.backward_passes >= int(record.about.get("batches_per_epoch") or 1):
        assumptions.add(LABELS_OUT_OF_RANGE)  # each batch of an epoch has passed the loss
    operands = summary.loss_operands
    if operands and not operands.broadcast and (operands.is_float_target or operands.kind in ("cross-entropy", "nll")):
        assumptions |= {LOSS_OPERANDS_MISMATCH, LOSS_BROADCASTS}
    if operands and operands.is_unit_target and operands.kind in ("bce", "bce-with-logits"):
        assumptions.add(LOSS_TARGETS_MISMATCH)
    if summary.batch_alignment.changed_inputs is not None and not summary.batch_alignment.receives_unchanged_inputs:
        assumptions.add(INPUTS_UNCHANGED)
    assumptions |= {argument_unchanged(number) for number in summary.batch_alignment.replaced_arguments}
    changes = summary.gradient_changes
    is_averaged = changes.weighted_passes > 0 and changes.averaged_passes == changes.weighted_passes
    if is_averaged or (summary.has_steps_of_fixed_norm and _has_fallen(record)):
        assumptions.add(LOSS_SUMMED)
    return frozenset(assumptions | _disproved_by_learning(record))


def _has_fallen(record: Record) -> bool:
    """Check whether the finite losses of the last quarter of a run are below those of the first one."""
    losses = record.series("loss")[1]
    losses = losses[np.isfinite(losses)]
    quarter = len(losses) // 4
    return quarter > 0 and bool(np.median(losses[-quarter:]) < np.median(losses[:quarter]))


def _disproved_by_learning(record: Record) -> set[str]:
    """Return the assumptions that the losses and scores of the run have disproved."""
    try:
        summary = get_run_summary(record)
    except NotChecked:
        return set()
    assumptions = {LABELS_UNRELATED} if _beats_majority_class(summary) or _beats_constant(summary) else set()
    is_better = not summary.majority or _beats_majority_class(summary)
    if is_better and _clearly_beats_constant_on_validation(summary, record):
        assumptions.add(LABELS_UNPREDICTABLE)
    assumptions |= _disproved_label_errors(summary.val.last_score)
    return assumptions | ({INITIAL_SCALE_HINDERS} if _has_learned_well(summary) else set())


def _beats_majority_class(summary: RunSummary) -> bool:
    """Check whether the score on the fixed validation samples exceeds that of the most frequent class."""
    score, majority_score = summary.val.last_score, summary.majority
    return (
        score is not None and majority_score is not None and majority_score > 0 and score > majority_score + _MIN_GAIN
    )


def _clearly_beats_constant_on_validation(summary: RunSummary, record: Record) -> bool:
    """Check whether the loss on the fixed validation samples was clearly below that of a constant prediction.

    On a few inputs, a network of random labels may be right by luck, but then its confidence is not.
    """
    chance = float(record.about.get("chance") or 0.0)
    return len(summary.val.loss) > 0 and float(np.nanmin(summary.val.loss)) < _CLEAR_SHARE * chance


def _disproved_label_errors(score: float | None) -> set[str]:
    """Return the shares of wrong validation labels with which the score on fixed validation samples is too high.

    A network that has not seen these samples predicts labels with independent errors only by chance. The score must be
    more than two standard errors above the share of right labels.
    """
    percents = np.arange(1, 100)
    right = 1 - percents / 100
    highest = right + _SIGMAS * np.sqrt(right * (1 - right) / _MIN_VALIDATION_SAMPLES)
    return {validation_labels_wrong(int(p)) for p in percents[score > highest]} if score is not None else set()


def _beats_constant(summary: RunSummary) -> bool:
    """Check whether the loss of real values is clearly below that of a constant prediction."""
    share = summary.remaining_share
    return not summary.majority and share is not None and share < 1 - _MIN_GAIN


def _has_learned_well(summary: RunSummary) -> bool:
    """Check whether hardly any of the loss of a constant prediction is left."""
    share = summary.remaining_share
    return summary.has_converged or (share is not None and share < _RECOVERED_SHARE)
