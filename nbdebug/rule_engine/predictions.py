"""Predictions that rules make before training, and how a watched run disproves them.

A rule that speaks before training states a fact, such as a shape or a gradient of zero, or it predicts what its
observation will do to the run. A rule that predicts names its ``Prediction`` in its decorator. After a watched run, the
findings of a prediction that the run disproves become notes, which say what the run showed instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from nbdebug.exceptions import NotChecked
from nbdebug.loss_curves.convergence import find_rate_too_high
from nbdebug.loss_curves.run_summary import HIGH_SCORE, RunSummary, get_run_summary
from nbdebug.loss_curves.stability import find_divergence
from nbdebug.records import Record

_MAX_REMAINING_SHARE = 0.5  # of the loss of a constant prediction, at the end of a run that learned
_MAX_SHARE_AFTER_START = (
    0.75  # the same, if the start is at stake; a part of the loss cannot be learned, as in language
)
_MAX_START_SHARE = 0.05  # of the run may pass before the loss is that of a constant prediction
_MIN_START_STEPS = 5
_MAX_FALL_SHARE = 0.1  # of the run may pass before the loss is half of its start
_MIN_FALL_STEPS = 10
_MAX_SMALL_SHARE = 0.25  # of the loss of a constant prediction, at the end of a run that learned nearly everything
_MIN_RECALL = 0.5  # of the rarest class that the validation samples hold
_MAX_RISE = 1.05  # of the constant prediction's loss; it is estimated from few samples


@dataclass(frozen=True)
class Prediction:
    """What a finding says about the run to come, and the check that disproves it.

    ``disproof`` returns what the run showed instead, or an empty string if the run does not disprove the claim. It
    raises NotChecked if the record of the run is too short to tell.
    """

    claim: str
    disproof: Callable[[Record], str]


def _success(record: Record) -> str:
    """Describe a run that converged: a high score, or a twentieth of the loss of a constant prediction."""
    run = get_run_summary(record)
    is_measured = run.chance is not None or (run.score is not None and run.score >= HIGH_SCORE)
    if not run.has_converged or not is_measured or not run.is_finite or run.second_half.rises:
        return ""
    if run.score is not None and np.isfinite(run.score):
        return f"the run ended with a score of {run.score:.3g} on fixed samples and a loss of {run.end_text}"
    return f"the run ended with a loss of {run.end_text}"


def _quick_start(record: Record) -> str:
    """Describe a run that reached the loss of a constant prediction at once, and learned from there."""
    run = get_run_summary(record)
    if run.chance is None:
        return _success(record) or _quick_fall(run)
    if run.remaining_share is None or run.remaining_share > _MAX_SHARE_AFTER_START:
        return _success(record)
    opening = max(_MIN_START_STEPS, int(_MAX_START_SHARE * len(run.loss)))
    has_recovered = bool((run.loss[:opening] <= _MAX_RISE * run.chance).any())
    if not has_recovered or not run.is_finite:
        return _success(record)
    first = int(run.steps[np.flatnonzero(run.loss <= _MAX_RISE * run.chance)[0]])
    return (
        f"the loss was down to that of a constant prediction ({run.chance:.3g}) by step {first} of {run.step_count} "
        f"and ended at {run.end_text}"
    )


def _quick_fall(run: RunSummary) -> str:
    """Describe a run without a known constant prediction that halved its loss at once, and then halved it again."""
    opening = max(_MIN_FALL_STEPS, int(_MAX_FALL_SHARE * len(run.loss)))
    has_halved = bool((run.loss[:opening] <= run.start / 2).any())
    if not has_halved or not run.is_finite or not run.is_nonnegative or run.end > run.start / 4:
        return ""
    step = int(run.steps[np.flatnonzero(run.loss <= run.start / 2)[0]])
    return f"the loss fell to half of its start by step {step} of {run.step_count} and ended at {run.end:.3g}"


def _found_rare_class(record: Record) -> str:
    """Describe a run whose model recognizes the rarest class of the fixed validation samples."""
    run = get_run_summary(record)
    recall = run.lowest_recall
    if recall is None or recall < _MIN_RECALL:
        return ""
    return f"the trained model recognizes {recall:.0%} of the rarest class on fixed samples"


def _stable_rate(record: Record) -> str:
    """Describe a run that neither diverged nor was harmed by its first steps, and learned."""
    run = get_run_summary(record)
    has_learned = run.remaining_share is not None and run.remaining_share <= _MAX_REMAINING_SHARE
    if not (has_learned or run.has_converged) or not run.is_finite:
        return ""
    if find_rate_too_high(run) or find_divergence(run):
        return ""
    return f"the run did not diverge; it ended with a loss of {run.end_text}"


def _learned_most(record: Record) -> str:
    """Describe a run that left a small part of the loss of a constant prediction."""
    run = get_run_summary(record)
    has_learned = run.remaining_share is not None and run.remaining_share <= _MAX_SMALL_SHARE and run.is_finite
    share = f", {run.remaining_share:.0%} of that of a constant prediction" if run.remaining_share is not None else ""
    return _success(record) or (f"the run ended with a loss of {run.end_text}{share}" if has_learned else "")


def _ran_without_error(record: Record) -> str:
    """Describe a run whose loop took steps, although the first call of a checkup raised an error."""
    return f"the loop took {record.steps} steps without this error" if record.steps else ""


POOR_TRAINING = Prediction("the training will end far from a good model", _success)
SLOW_START = Prediction("the first epochs will be spent on undoing the initial scale", _quick_start)
MISSED_CLASS = Prediction("the model will miss the rare class", _found_rare_class)
UNSTABLE_RATE = Prediction("the loss will diverge at this learning rate", _stable_rate)
UNSEEN_ORDER = Prediction("the model will not learn what depends on the order", _learned_most)
CRASH = Prediction("the loop will raise this error", _ran_without_error)
PREDICTIONS = (CRASH, POOR_TRAINING, SLOW_START, MISSED_CLASS, UNSTABLE_RATE, UNSEEN_ORDER)


def disproved_predictions(record: Record) -> Mapping[str, str]:
    """Return the claims that a run has disproved, each with what the run showed instead."""
    disproved: dict[str, str] = {}
    for prediction in PREDICTIONS:
        with suppress(NotChecked):
            if text := prediction.disproof(record):
                disproved[prediction.claim] = text
    return disproved
