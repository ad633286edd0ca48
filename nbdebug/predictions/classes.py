"""The prediction table of a classifier: one class a sample, one prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.confusion import Counts, confusion
from nbdebug.predictions.arrays import indexed
from nbdebug.predictions.cells import Cells
from nbdebug.predictions.grid import Grid, accuracy_line
from nbdebug.predictions.labels import Labels, numbered
from nbdebug.predictions.query import Page, Query, Rows
from nbdebug.predictions.scores import TOP, Floats, as_scores, digest, form_of
from nbdebug.predictions.soft import SOFT, soft, soft_loss
from nbdebug.predictions.table import Table, fits

MOST_SCORES = 16_000_000  # numbers: up to here all scores are kept, 64 MB


@dataclass(frozen=True, kw_only=True)
class Predictions(Table):
    """What was said of the class of each sample.

    ``target`` and ``prediction`` are numbers of ``classes``, -1 where there is none. ``columns`` holds loss,
    confidence, margin and entropy where there were scores, and of two classes the chance of the second. ``top`` are the
    likeliest classes with their probabilities ``chances``; ``scores`` are all of them, while they fit into 64 MB.
    """

    task: ClassVar[str] = "classification"

    target: Labels
    prediction: Labels
    classes: tuple[str, ...]
    top: NDArray[np.int32] | None = None
    chances: Floats | None = None
    scores: Floats | None = None

    @classmethod
    def of(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        index: Any = None,
        ignore_index: int | None = None,
        columns: Mapping[str, Any] | None = None,
        top: int = TOP,
    ) -> Predictions:
        """A table of arrays, tensors or lists: predicted labels, or scores of all classes (logits or probabilities).

        Targets are labels, or rows × classes of probabilities, of which the likeliest is the label. Raises
        SetupError for shapes, lengths or labels that do not fit each other.
        """
        chances = soft(targets)
        targets = targets if chances is None else chances.argmax(1)
        if is_scores(predictions):
            scores = as_scores(predictions)
            target, _, classes = numbered(targets, None, class_names, scores.shape[1], ignore_index)
            fits("predictions", len(scores), len(target))
            table = scored(scores, target, classes, top)
            if chances is not None:
                fits_classes(chances, scores)
                loss = soft_loss(scores, chances, form_of(scores))
                table = table.replaced(columns={**table.columns, "loss": loss})
        else:
            target, prediction, classes = numbered(targets, predictions, class_names, None, ignore_index)
            assert prediction is not None
            table = cls(target=target, prediction=prediction, classes=classes)
        said = (SOFT,) if chances is not None else ()
        table = table.replaced(index=indexed(index, len(table)), notes=table.notes + said + single(target, classes))
        return table.with_columns(columns or {})

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.target)

    @cached_property
    def matrix(self) -> Counts:
        """The confusion matrix, targets × predictions."""
        return (
            self.cells.matrix if "cells" in vars(self) else confusion(self.target, self.prediction, len(self.classes))
        )

    @cached_property
    def grid(self) -> Grid:
        """The confusion matrix with its names; whoever asks for it will click on it, so its cells are found too."""
        return Grid(self.cells.matrix, self.classes, self.classes)

    @cached_property
    def cells(self) -> Cells:
        """The rows of each cell of the matrix, by loss, else by confidence, else in their order."""
        return Cells(self.target, self.prediction, len(self.classes), self.columns.get(self.worst))

    def in_cell(self, row: int, column: int) -> Rows:
        """The rows with this target and this prediction."""
        return self.cells.all(row, column)

    def page(self, query: Query) -> Page:
        """The rows that are asked for; those of one cell are found without a pass over the table."""
        if not query.is_one_cell:
            return super().page(query)
        ((row, column),) = query.cells
        rows = self.cells.rows(row, column, query.start + query.count)
        return Page(rows[query.start :], self.cells.count(row, column))

    def headline(self) -> str:
        """The accuracy in a line."""
        return accuracy_line(self.matrix, len(self))

    def said(self, row: int) -> dict[str, str]:
        """The class, and what it was taken for."""
        both = {"target": self.target[row], "prediction": self.prediction[row]}
        return {name: self.classes[number] if number >= 0 else "none" for name, number in both.items()}

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which rows are right; those without a target are not."""
        return np.asarray((self.target == self.prediction) & (self.target >= 0))

    def to_parquet(self, path: str | Path) -> None:
        """Writes the table as a Parquet file; ``nbdebug.errors(predictions=path)`` reads it. Needs DuckDB."""
        from nbdebug.predictions.disk.writing import to_parquet

        to_parquet(self, path)

    def main(self) -> dict[str, NDArray[Any]]:
        """Target and prediction by the names of their classes."""
        names = np.array([*self.classes, ""], object)
        return {"target": names[self.target], "prediction": names[self.prediction]}


def single(target: Labels, classes: tuple[str, ...]) -> tuple[str, ...]:
    """What is said where all targets are of one class."""
    known = target[target >= 0]
    if not len(known) or known.min() != known.max():
        return ()
    return (f"all targets are of one class, {classes[known[0]]!r}: what is right says little",)


def fits_classes(chances: Floats, scores: Floats) -> None:
    """Refuses soft labels of another number of classes."""
    if chances.shape[1] != scores.shape[1]:
        raise SetupError(
            f"targets has {chances.shape[1]} classes; expected {scores.shape[1]}, as scores have. Check the labels."
        )


def is_scores(predictions: Any) -> bool:
    """Whether predictions are scores and not labels: of real numbers, with an axis of classes or with fractions."""
    found = predictions.detach().cpu().numpy() if hasattr(predictions, "detach") else np.asarray(predictions)
    if found.dtype.kind != "f":
        return False
    if found.ndim > 1 and found.shape[1] > 1:
        return True
    whole = found[np.isfinite(found)]
    return bool(len(whole)) and not bool((whole == np.rint(whole)).all())


def scored(scores: Floats, target: Labels, classes: tuple[str, ...], top: int) -> Predictions:
    """A table with what scores tell; a row with a score that is no number has no prediction."""
    found = digest(scores, target, top=top)
    columns = {
        "loss": found.loss,
        "confidence": found.chances[:, 0],
        "margin": found.margin,
        "entropy": found.entropy,
    }
    if len(classes) == 2 and found.top.shape[1] == 2:
        columns["chance"] = np.where(found.top[:, 0] == 1, found.chances[:, 0], found.chances[:, 1])
    notes: tuple[str, ...] = (f"predictions were taken for {found.form}",)
    if found.broken:
        notes += (f"without a prediction, since a score is no number: {found.broken} rows",)
    return Predictions(
        target=target,
        prediction=np.where(np.isnan(found.chances[:, 0]), -1, found.top[:, 0]).astype(np.int32),
        classes=classes,
        columns=columns,
        top=found.top,
        chances=found.chances,
        scores=scores if scores.size <= MOST_SCORES else None,
        notes=notes,
    )
