"""A column of a table that separates two classes alone, with a gap between them, while all other columns cannot."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.baselines.input_features import feature_matrix, standardize_columns
from nbdebug.baselines.reference_learner import ReferenceLearner, Targets
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.feature_values import sample_positions
from nbdebug.measurements.registry import slow_measurement
from nbdebug.tensors.row_search import is_finite

_MIN_ROWS, _MAX_ROWS, _MIN_ROWS_OF_CLASS, _MIN_COLUMNS = 100, 2000, 20, 3
_MAX_ERROR = 0.03  # of the threshold
_MIN_OTHER_ERROR, _ERROR_RATIO = 0.08, 5.0  # of all other columns together
_BULK = (0.025, 0.975)  # quantiles of a class
_QUARTILES = (0.25, 0.75)


@dataclass(frozen=True)
class SeparatingColumn:
    """A column, the error of its best threshold, and the out-of-fold error of a learner of all other columns."""

    input_index: int
    column: int
    threshold: float
    error: float
    error_of_others: float
    learner: str
    rows: int


@slow_measurement
def separating_column(tables: dict[str, SplitTable]) -> SeparatingColumn | None:
    """The column of a table whose values fall into two groups, one for each of two classes, unlike any other column."""
    table = tables.get("train")
    labels = _binary_labels(table) if table is not None else None
    if table is None or labels is None:
        return None
    rows = sample_positions(len(labels), _MAX_ROWS)
    labels, parts = labels[rows], [part[rows] for part in table.inputs]
    columns = [
        (index, column, part[:, column].float())
        for index, part in enumerate(parts)
        if part.is_floating_point() and part.dim() == 2 and is_finite(part)
        for column in range(part.shape[1])
    ]
    if len(columns) < _MIN_COLUMNS or min(labels.sum(), (~labels).sum()) < _MIN_ROWS_OF_CLASS:
        return None
    splits = [_best_threshold(values, labels) for _, _, values in columns]
    best = min(range(len(columns)), key=lambda i: splits[i][0])
    index, column, values = columns[best]
    error, threshold = splits[best]
    if error > _MAX_ERROR or not _has_gap(values[labels], values[~labels]):
        return None
    kept = torch.arange(parts[index].shape[1]) != column
    parts[index] = parts[index][:, kept]
    targets = Targets("classes", torch.stack([~labels, labels], 1).double().numpy())
    others = ReferenceLearner(standardize_columns(feature_matrix(parts)), targets).out_of_fold()
    if 1 - others.score < max(_MIN_OTHER_ERROR, _ERROR_RATIO * error):
        return None
    return SeparatingColumn(index, column, threshold, error, 1 - others.score, others.learner, len(labels))


def _binary_labels(table: SplitTable) -> Tensor | None:
    """Return whether each row belongs to the second of two classes; None if the target is anything else."""
    if len(table) < _MIN_ROWS or len(table.targets) != 1 or table.targets[0].numel() != len(table):
        return None
    target = table.targets[0].flatten()
    distinct = target.unique()  # type: ignore[no-untyped-call]
    return target == distinct[1] if len(distinct) == 2 else None


def _best_threshold(values: Tensor, labels: Tensor) -> tuple[float, float]:
    """Return the smallest error of a threshold between two different values, with either class above, and where."""
    ordered, order = values.sort()
    positives = labels[order].double().cumsum(0)[:-1]
    count, total = torch.arange(1, len(values)), labels.sum()
    errors = torch.minimum(
        positives + (len(values) - total) - (count - positives), count - positives + total - positives
    )
    errors[ordered[1:] == ordered[:-1]] = len(values)
    at = int(errors.argmin())
    return float(errors[at]) / len(values), float(ordered[at] + ordered[at + 1]) / 2


def _has_gap(first: Tensor, second: Tensor) -> bool:
    """Return whether the bulks of two classes are further apart than the narrower of them is wide.

    A class that is defined by a threshold on a column, or grows more likely along it, leaves no such gap.
    """
    quantiles = torch.tensor([*_BULK, *_QUARTILES])
    lower, upper = sorted((first.quantile(quantiles), second.quantile(quantiles)), key=lambda q: float(q[0]))
    width = min(float(lower[3] - lower[2]), float(upper[3] - upper[2]))
    return float(upper[0] - lower[1]) > width
