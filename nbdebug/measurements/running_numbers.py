"""A column that numbers the rows in the order of their classes, as the row number of a sorted table does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement

_MIN_ROWS, _MAX_VALUES = 100, 2_000_000  # of a table: all its columns are sorted
_MIN_FILL = 0.5  # share of the numbers between the smallest and the largest that occur; a split takes some of them
_TOLERANCE = 0.05  # of a step: float32 values that were standardized
_MAX_RUN_SHARE = 0.1  # of the runs of a random order


@dataclass(frozen=True)
class RunningNumber:
    """A column of distinct, evenly spaced values, and the runs of equal labels in its order.

    ``random_runs`` is the number of runs that a random order would have.
    """

    input_index: int
    column: int
    rows: int
    runs: int
    random_runs: float


@measurement
def running_number(tables: dict[str, SplitTable]) -> RunningNumber | None:
    """The column that numbers the training rows, if their classes follow each other in its order."""
    table = tables.get("train")
    if table is None or table.labels is None or len(table) < _MIN_ROWS:
        return None
    labels = table.labels
    shares = torch.bincount(labels - labels.min()).double() / len(labels)
    random_runs = 1 + (len(labels) - 1) * float(1 - shares.square().sum())
    for index, part in enumerate(table.inputs):
        for column in range(part.shape[1]) if part.dim() == 2 and part.numel() <= _MAX_VALUES else ():
            order = _running_order(part[:, column].double())
            runs = 1 + int((labels[order[1:]] != labels[order[:-1]]).sum()) if order is not None else len(labels)
            if runs <= _MAX_RUN_SHARE * random_runs:
                return RunningNumber(index, column, len(labels), runs, random_runs)
    return None


def _running_order(values: Tensor) -> Tensor | None:
    """Return the order of distinct values whose distances are multiples of the smallest one; None for others."""
    ordered, order = values.sort()
    steps = (ordered[1:] - ordered[:-1]) / (ordered[1:] - ordered[:-1]).min().clamp_min(1e-12)
    is_even = bool(((steps - steps.round()).abs() < _TOLERANCE * steps.round()).all())
    return order if is_even and len(steps) >= _MIN_FILL * float(steps.sum()) else None
