"""Columns of a table that copy the target of their own row, or that of a later one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.tensors.row_search import is_finite

_SAMPLES_OF_FIRST_PASS = 200  # samples for a first pass that rules out most columns
_MAX_LATER_ROWS = 60  # rows after its own, of which a column may hold the target
_MIN_PAIRS = 50  # of rows that far apart


def linear_copies(flat: Tensor, target: Tensor, exact: float) -> list[int]:
    """Return the columns that are a linear function of the target."""
    if not (is_finite(flat) and is_finite(target)) or float(target.std()) == 0:
        return []
    rows = _evenly_spaced_rows(len(flat))
    candidates = (_absolute_correlations(flat[rows], target[rows]) > 1 - 10 * exact).nonzero().flatten()
    columns: list[int] = candidates[_absolute_correlations(flat[:, candidates], target) > 1 - exact].tolist()
    return columns


def _evenly_spaced_rows(rows: int) -> Tensor:
    """Return evenly spaced row indices from first to last."""
    return torch.linspace(0, rows - 1, min(_SAMPLES_OF_FIRST_PASS, rows)).long()


def _absolute_correlations(flat: Tensor, target: Tensor) -> Tensor:
    """Return the absolute correlation of each column with the target, in double precision."""
    columns, target_values = flat.double(), target.double()
    columns, target_values = columns - columns.mean(0), target_values - target_values.mean()
    norms = columns.norm(dim=0) * target_values.norm()
    correlations: Tensor = (columns * target_values[:, None]).sum(0).abs() / norms.clamp_min(1e-12)
    return correlations


def renumbered_class_columns(flat: Tensor, labels: Tensor) -> list[int]:
    """Return the columns with exactly one value for each class, and a different one for each."""
    if len(classes := labels.unique().tolist()) < 2:  # type: ignore[no-untyped-call]
        return []
    first = torch.stack([flat[(labels == label).int().argmax()] for label in classes])
    class_indices = torch.searchsorted(torch.tensor(classes), labels)
    rows = _evenly_spaced_rows(len(flat))
    columns = (flat[rows] == first[class_indices[rows]]).all(0).nonzero().flatten().tolist()
    several = [column for column in columns if len(set(first[:, column].tolist())) == len(classes)]
    return [column for column in several if bool((flat[:, column] == first[class_indices, column]).all())]


def later_targets(table: SplitTable, flat: Tensor, copies: Sequence[int], exact: float) -> dict[int, int]:
    """Return the other columns that hold the targets of later rows of the dataset, with the number of rows."""
    target = table.targets[0].reshape(len(table)).float()
    indices = torch.tensor([*table.indices])
    rows = torch.full((int(indices.max()) + _MAX_LATER_ROWS + 1,), -1)
    rows[indices] = torch.arange(len(indices))
    others = torch.tensor([column for column in range(flat.shape[1]) if column not in copies], dtype=torch.long)
    later: dict[int, int] = {}
    for distance in range(1, _MAX_LATER_ROWS + 1):
        later_rows = rows[indices + distance]
        has_later = later_rows >= 0
        if int(has_later.sum()) < _MIN_PAIRS:
            break
        found = linear_copies(flat[has_later][:, others], target[later_rows[has_later]], exact)
        later |= {column: distance for column in others[found].tolist() if column not in later}
    return later
