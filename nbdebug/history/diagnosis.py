"""Diagnose training curves without the model: what they show, how severe it is, its likely cause and its fix."""

from __future__ import annotations

from math import log
from typing import Any

from nbdebug.history.curves import Curves, find_curves, to_record
from nbdebug.history.reading import read_history
from nbdebug.history.result import Diagnosis, find_best_positions
from nbdebug.history.signs import MIN_VALUES, Evidence, find_signs
from nbdebug.loss_curves.run_summary import summarize_run
from nbdebug.options import check_option_names
from nbdebug.report import rank_findings
from nbdebug.validation import validate_int


@check_option_names()
def diagnose(history: Any, *, classes: int | None = None) -> Diagnosis:
    """Diagnose training curves: divergence, overfitting, plateaus, spikes, NaN, oscillation and the best epoch.

    Raises SetupError for a source that cannot be read, or without a loss.

    Args:
        history: A dictionary of lists (``loss``, ``val_loss``, ``accuracy``), a Keras History, a list of rows, a
            DataFrame, a log as text, or the path of a JSON, CSV (Lightning, Keras), ``trainer_state.json``,
            TensorBoard or MLflow file or folder.
        classes: Number of classes of a cross-entropy, whose logarithm is the loss of a constant prediction.
    """
    chance = log(validate_int("classes", classes, 2)) if classes is not None else None
    logged = read_history(history)
    curves = find_curves(logged)
    record = to_record(curves, chance)
    findings = rank_findings(find_signs(Evidence(curves, summarize_run(record))))
    notes = (*logged.notes, *_unjudged(curves))
    return Diagnosis(findings, curves, record, find_best_positions(curves), logged.source, notes)


def _unjudged(curves: Curves) -> list[str]:
    """Return what the curves are too few or too short for."""
    count, notes = len(curves.train_loss.values), []
    if count < MIN_VALUES:
        notes.append(f"The loss has {count} values; its shape is judged from {MIN_VALUES} values on.")
    if curves.val_loss is None:
        notes.append("There is no validation loss, so overfitting was not judged.")
    return notes
