"""The table of whatever predictions are given as: arrays, a DataFrame, or Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.disk.stored import MOST_IN_MEMORY, Stored
from nbdebug.predictions.frames import as_frame, of_frame


def table_of(
    predictions: Any,
    targets: Any = None,
    *,
    prediction: str | None = None,
    scores: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
) -> Predictions | Stored:
    """The table of predictions and targets, or the one that is given.

    Of files and frames ``targets`` and ``prediction`` name columns. Files with more rows than memory is made for
    stay where they are. Raises SetupError for what does not fit.
    """
    if isinstance(predictions, Predictions | Stored):
        return predictions
    if isinstance(predictions, str | Path):
        if scores is not None or columns is not None:
            raise SetupError("scores or columns are given with a path; expected them in the file. Read it as a frame.")
        return of_files(predictions, targets or "target", prediction or "prediction", class_names)
    frame = as_frame(predictions)
    if frame is None and targets is None:
        raise SetupError("targets is None; expected the labels beside the predictions. Pass targets=.")
    if frame is None:
        return Predictions.of(predictions, targets, class_names=class_names, columns=columns)
    return of_frame(frame, targets or "target", prediction, scores, class_names).with_columns(columns or {})


def of_files(path: str | Path, target: str, prediction: str, class_names: Sequence[str] | None) -> Predictions | Stored:
    """The table of a file or a folder: of the parts of a distributed evaluation, where it holds such."""
    from nbdebug.predictions.disk.parts import are_parts, read_parts

    if are_parts(path):
        return read_parts(path)
    found = Stored.at(path, target, prediction, class_names)
    return found.load() if len(found) <= MOST_IN_MEMORY else found
