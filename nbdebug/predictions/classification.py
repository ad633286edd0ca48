"""The table of single-label classification, and the rows behind each confusion cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.classification import ROWS_PER_CHUNK, Counts, cell_indices, confusion_matrix
from nbdebug.predictions.class_scores import (
    N_TOP_CLASSES,
    SOFT_TARGETS_NOTE,
    Floats,
    detect_form,
    parse_scores,
    parse_soft_targets,
    soft_cross_entropy,
    summarize_scores,
)
from nbdebug.predictions.labels import Labels, encode_labels, parse_index
from nbdebug.predictions.table import (
    Grid,
    Page,
    PredictionTable,
    Query,
    Rows,
    check_length,
    describe_accuracy,
    highest_positions,
)

_SAMPLE_SIZE = 4096
_CellRowIndices = NDArray[np.int64]
_MIN_SORTED_ROWS = 200  # minimum number of rows of a cell that are sorted at once
_LARGE_CELL_ROWS = 1 << 18  # sorting more rows than this takes too long for a click
MAX_STORED_SCORES = 16_000_000  # up to this many numbers (64 MB) all scores are stored


def _worst_rows_of_large_cells(
    rows: Mapping[int, NDArray[np.int32]], cell: NDArray[Any], cells: int, severity: NDArray[Any], limit: int
) -> dict[int, NDArray[np.int64]]:
    """Return the worst rows of some cells, worst first.

    ``rows`` maps a cell to its rows, ``cell`` holds the cell of each row. Only rows above a threshold, estimated from a
    sample of the cell, are sorted; cells with too few such rows are left out.
    """
    thresholds = np.full(cells, np.inf, np.result_type(severity, np.float32))
    for number, cell_rows in rows.items():
        step = len(cell_rows) // _SAMPLE_SIZE + 1
        sample = -severity[cell_rows[::step]].astype(thresholds.dtype)
        rank = min(2 * limit // step + 16, len(sample) - 1)
        thresholds[number] = -np.partition(sample, rank)[rank]
    above = np.concatenate(
        [_rows_above_thresholds(thresholds, cell, severity, start) for start in range(0, len(cell), ROWS_PER_CHUNK)]
    )
    rows_above = {number: above[cell[above] == number] for number in rows}
    return {
        number: candidates[highest_positions(severity[candidates], limit)]
        for number, candidates in rows_above.items()
        if len(candidates) >= limit
    }


def _rows_above_thresholds(
    thresholds: NDArray[Any], cell: NDArray[Any], severity: NDArray[Any], start: int
) -> NDArray[np.int64]:
    """Return the rows of a chunk that reach the threshold of their cell."""
    chunk = slice(start, start + ROWS_PER_CHUNK)
    return np.flatnonzero(severity[chunk] >= thresholds[cell[chunk]]) + start


class ConfusionCells:
    """The rows of each cell, available without a pass over the table; uses four bytes per row.

    Rows are grouped by cell once, by counting sort. The rows of a cell are sorted by severity when first requested,
    those of the few huge cells in advance.
    """

    def __init__(
        self, target: NDArray[Any], prediction: NDArray[Any], classes: int, severity: NDArray[Any] | None = None
    ) -> None:
        """Group the rows; ``severity`` sorts those of a cell, highest first and NaN last (default: table order)."""
        from scipy.sparse import csr_matrix

        self.classes, self.severity = classes, severity
        cell = cell_indices(target, prediction, classes, slice(None))
        count, cells = len(cell), classes * classes + 1
        row_positions = np.arange(count + 1, dtype=np.int32)
        # A sparse matrix with one entry per row: its conversion to columns is a counting sort by cell.
        sparse = csr_matrix((np.ones(count, np.bool_), cell, row_positions), shape=(count, cells)).tocsc()
        self.order, self.starts = sparse.indices, sparse.indptr
        large_cells = [
            divmod(cell_number, classes)
            for cell_number in np.flatnonzero(np.diff(self.starts)[:-1] > _LARGE_CELL_ROWS).tolist()
        ]
        self.worst_rows: dict[tuple[int, int], _CellRowIndices] = {}
        if large_cells and severity is not None:
            rows = {i * classes + j: self.rows_view(i, j) for i, j in large_cells}
            worst_by_cell = _worst_rows_of_large_cells(rows, cell, cells, severity, _MIN_SORTED_ROWS)
            self.worst_rows = {
                divmod(cell_number, classes): cell_worst for cell_number, cell_worst in worst_by_cell.items()
            }

    @property
    def matrix(self) -> Counts:
        """Return the confusion matrix."""
        return np.asarray(np.diff(self.starts)[:-1].reshape(self.classes, self.classes), np.int64)

    def rows(self, target: int, prediction: int, limit: int = 50) -> _CellRowIndices:
        """Return at most ``limit`` rows of a cell, worst first."""
        sorted_rows = self.worst_rows.get((target, prediction))
        if sorted_rows is None or len(sorted_rows) < min(limit, self.count(target, prediction)):
            sorted_rows = self.worst_rows[target, prediction] = self.sort_rows(
                target, prediction, max(2 * limit, _MIN_SORTED_ROWS)
            )
        return sorted_rows[:limit]

    def count(self, target: int, prediction: int) -> int:
        """Return the number of rows of a cell."""
        return len(self.rows_view(target, prediction))

    def all_rows(self, target: int, prediction: int) -> _CellRowIndices:
        """Return all rows of a cell in table order."""
        return self.rows_view(target, prediction).astype(np.int64)

    def rows_view(self, target: int, prediction: int) -> NDArray[np.int32]:
        """Return all rows of a cell without a copy."""
        cell = target * self.classes + prediction
        return np.asarray(self.order[self.starts[cell] : self.starts[cell + 1]])

    def sort_rows(self, target: int, prediction: int, limit: int) -> _CellRowIndices:
        """Compute the worst rows of a cell."""
        rows = self.rows_view(target, prediction)
        if self.severity is None:
            return rows[:limit].astype(np.int64)
        return rows[highest_positions(self.severity[rows], limit)].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class ClassificationTable(PredictionTable):
    """The predicted class of each sample.

    ``target`` and ``prediction`` are indices into ``classes``, -1 for none. With scores, ``columns`` holds loss,
    confidence, margin and entropy, and for two classes the probability of the second. ``top`` are the most probable
    classes with their probabilities ``chances``; ``scores`` are those of all classes, up to 64 MB.
    """

    task: ClassVar[str] = "classification"

    target: Labels
    prediction: Labels
    classes: tuple[str, ...]
    top: NDArray[np.int32] | None = None
    chances: Floats | None = None
    scores: Floats | None = None

    @classmethod
    def from_arrays(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        index: Any = None,
        ignore_index: int | None = None,
        columns: Mapping[str, Any] | None = None,
        top: int = N_TOP_CLASSES,
    ) -> ClassificationTable:
        """Return a table of arrays, tensors or lists: predicted labels, or scores of all classes.

        Scores are logits or probabilities. Targets are labels, or probabilities (rows × classes), whose most probable
        class is the label. Raises SetupError for shapes, lengths or labels that do not match.
        """
        soft_targets = parse_soft_targets(targets)
        targets = targets if soft_targets is None else soft_targets.argmax(1)
        if _are_scores(predictions):
            scores = parse_scores(predictions)
            target, _, classes = encode_labels(targets, None, class_names, scores.shape[1], ignore_index)
            check_length("predictions", len(scores), len(target))
            table = _table_from_scores(scores, target, classes, top)
            if soft_targets is not None:
                _check_soft_label_classes(soft_targets, scores)
                loss = soft_cross_entropy(scores, soft_targets, detect_form(scores))
                table = table.replace(columns={**table.columns, "loss": loss})
        else:
            target, prediction, classes = encode_labels(targets, predictions, class_names, None, ignore_index)
            assert prediction is not None
            table = cls(target=target, prediction=prediction, classes=classes)
        notes = (SOFT_TARGETS_NOTE,) if soft_targets is not None else ()
        table = table.replace(
            index=parse_index(index, len(table)), notes=table.notes + notes + _single_class_note(target, classes)
        )
        return table.with_columns(columns or {})

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def matrix(self) -> Counts:
        """Return the confusion matrix, targets × predictions."""
        return (
            self.cell_rows.matrix
            if "cells" in vars(self)
            else confusion_matrix(self.target, self.prediction, len(self.classes))
        )

    @cached_property
    def grid(self) -> Grid:
        """Return the confusion matrix with names; also prepares the rows of its cells, which a click will request."""
        return Grid(self.cell_rows.matrix, self.classes, self.classes)

    @cached_property
    def cell_rows(self) -> ConfusionCells:
        """Return the rows of each cell, sorted by loss, else by confidence, else in table order."""
        return ConfusionCells(self.target, self.prediction, len(self.classes), self.columns.get(self.severity_column))

    def rows_in_cell(self, row: int, column: int) -> Rows:
        """Return the rows with this target and this prediction."""
        return self.cell_rows.all_rows(row, column)

    def page(self, query: Query) -> Page:
        """Return the requested rows; those of one cell without a pass over the table."""
        if not query.selects_one_cell:
            return super().page(query)
        ((row, column),) = query.cells
        rows = self.cell_rows.rows(row, column, query.start + query.count)
        return Page(rows[query.start :], self.cell_rows.count(row, column))

    def headline(self) -> str:
        """Return the accuracy in one line."""
        return describe_accuracy(self.matrix, len(self))

    def describe_row(self, row: int) -> dict[str, str]:
        """Return the target class and the predicted class."""
        labels = {"target": self.target[row], "prediction": self.prediction[row]}
        return {name: self.classes[number] if number >= 0 else "none" for name, number in labels.items()}

    @property
    def right(self) -> NDArray[np.bool_]:
        """Return which rows are correct; rows without a target are not."""
        return np.asarray((self.target == self.prediction) & (self.target >= 0))

    def to_parquet(self, path: str | Path) -> None:
        """Write the table as a Parquet file; ``nbdebug.errors(predictions=path)`` reads it. Needs DuckDB."""
        from nbdebug.predictions.parquet_files import write_parquet

        write_parquet(self, path)

    def main_columns(self) -> dict[str, NDArray[Any]]:
        """Return target and prediction as class names."""
        names = np.array([*self.classes, ""], object)
        return {"target": names[self.target], "prediction": names[self.prediction]}


def _single_class_note(target: Labels, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note if all targets are of one class."""
    labeled = target[target >= 0]
    if not len(labeled) or labeled.min() != labeled.max():
        return ()
    return (f"all targets are of one class, {classes[labeled[0]]!r}: accuracy is not informative",)


def _check_soft_label_classes(soft_targets: Floats, scores: Floats) -> None:
    """Raise SetupError for soft labels with another number of classes."""
    if soft_targets.shape[1] != scores.shape[1]:
        raise SetupError(
            f"targets has {soft_targets.shape[1]} classes; expected {scores.shape[1]}, as scores have. "
            "Check the labels."
        )


def _are_scores(predictions: Any) -> bool:
    """Return whether predictions are scores, not labels: floats with a class axis or with fractions."""
    values = predictions.detach().cpu().numpy() if hasattr(predictions, "detach") else np.asarray(predictions)
    if values.dtype.kind != "f":
        return False
    if values.ndim > 1 and values.shape[1] > 1:
        return True
    finite = values[np.isfinite(values)]
    return bool(len(finite)) and not bool((finite == np.rint(finite)).all())


def _table_from_scores(scores: Floats, target: Labels, classes: tuple[str, ...], top: int) -> ClassificationTable:
    """Return a table from scores; a row with a non-finite score has no prediction."""
    summary = summarize_scores(scores, target, top=top)
    columns = {
        "loss": summary.loss,
        "confidence": summary.probabilities[:, 0],
        "margin": summary.margin,
        "entropy": summary.entropy,
    }
    if len(classes) == 2 and summary.top.shape[1] == 2:
        columns["chance"] = np.where(summary.top[:, 0] == 1, summary.probabilities[:, 0], summary.probabilities[:, 1])
    notes: tuple[str, ...] = (f"predictions are interpreted as {summary.form}",)
    if summary.n_non_finite:
        notes += (f"{summary.n_non_finite} rows have a non-finite score and no prediction",)
    return ClassificationTable(
        target=target,
        prediction=np.where(np.isnan(summary.probabilities[:, 0]), -1, summary.top[:, 0]).astype(np.int32),
        classes=classes,
        columns=columns,
        top=summary.top,
        chances=summary.probabilities,
        scores=scores if scores.size <= MAX_STORED_SCORES else None,
        notes=notes,
    )
