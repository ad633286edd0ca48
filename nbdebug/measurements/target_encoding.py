"""Columns of a table that hold the mean of the target over the rows that share a value."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement

_MIN_DISTINCT_VALUES, _MIN_ROWS, _MAX_COLUMNS = 5, 50, 512
_MAX_RELATIVE_ERROR = 1e-4  # of the range of the means
_SAMPLED_ROWS, _SAMPLED_VALUES = 4_096, 64


@dataclass(frozen=True)
class TargetEncoding:
    """A column that is a linear function of the mean target of the rows with the same value.

    ``has_validation`` tells whether the means include the validation rows. ``pure_share`` is the share of rows whose
    value occurs with a single target: they are the rows of small categories, whose mean is their own target.
    """

    input_index: int
    column: int
    rows: int
    values: int
    has_validation: bool
    pure_share: float


@measurement
def target_encodings(tables: dict[str, SplitTable]) -> list[TargetEncoding]:
    """Columns that hold the mean target of a category, computed over the training rows or the rows of both splits."""
    train, val = tables.get("train"), tables.get("val")
    if train is None or not _is_table(train):
        raise NotChecked(f"needs {_MIN_ROWS} training rows with one target each, all of which can be read")
    is_joinable = val is not None and _is_table(val) and len(val.inputs) == len(train.inputs)
    candidates = [(train, val), (train, None)] if is_joinable else [(train, None)]
    encodings: dict[tuple[int, int], TargetEncoding] = {}
    for first, second in candidates:
        splits = [first] if second is None else [first, second]
        target = torch.cat([split.targets[0].reshape(len(split)).double() for split in splits])
        for index in range(len(first.inputs)):
            parts = [split.inputs[index] for split in splits]
            if all(part.dim() == 2 and part.is_floating_point() for part in parts) and _have_same_width(parts):
                for encoding in _find_encodings(torch.cat(parts), target, index, second is not None):
                    encodings.setdefault((index, encoding.column), encoding)
    return list(encodings.values())


def _is_table(table: SplitTable) -> bool:
    """Return whether all rows were read and have one target each."""
    has_target = len(table.targets) == 1 and table.targets[0].numel() == len(table)
    return table.is_complete and len(table) >= _MIN_ROWS and has_target


def _have_same_width(parts: list[Tensor]) -> bool:
    return len({part.shape[1] for part in parts}) == 1 and parts[0].shape[1] <= _MAX_COLUMNS


def _find_encodings(flat: Tensor, target: Tensor, index: int, has_validation: bool) -> list[TargetEncoding]:
    """Return the encoded columns.

    Categories with equal means share a value, and the mean over all their rows is the same. So the relation is exact.
    """
    encodings = []
    for column, column_values in enumerate(flat.t().contiguous()):
        if not _may_be_encoded(column_values, target):
            continue
        values, groups, counts = column_values.unique(return_inverse=True, return_counts=True)
        if len(values) < _MIN_DISTINCT_VALUES:
            continue
        means = torch.zeros(len(values), dtype=torch.double).index_add_(0, groups, target) / counts
        if _is_linear(values.double(), means):
            is_varied = torch.zeros(len(values), dtype=torch.bool)
            is_varied[groups[(target - means[groups]).abs() > _MAX_RELATIVE_ERROR * target.std()]] = True
            if len(values) >= len(flat) / 2 and int(is_varied.sum()) < _MIN_DISTINCT_VALUES:
                continue  # hardly any value stands for several targets: no mean, but perhaps a copy of the target
            pure_share = float((~is_varied[groups]).double().mean())
            encodings.append(TargetEncoding(index, column, len(flat), len(values), has_validation, pure_share))
    return encodings


def _may_be_encoded(column: Tensor, target: Tensor) -> bool:
    """Return whether the mean target is a linear function of some sampled values, which is fast to compute."""
    sampled = column[:: max(len(column) // _SAMPLED_ROWS, 1)].unique()  # type: ignore[no-untyped-call]
    if len(sampled) < _MIN_DISTINCT_VALUES:
        return False
    sampled = sampled[:: max(len(sampled) // _SAMPLED_VALUES, 1)]
    positions = torch.searchsorted(sampled, column).clamp_(max=len(sampled) - 1)
    rows = (sampled[positions] == column).nonzero().flatten()
    groups = positions[rows]
    counts = groups.bincount(minlength=len(sampled))
    means = torch.zeros(len(sampled), dtype=torch.double).index_add_(0, groups, target[rows]) / counts
    return _is_linear(sampled.double(), means, 10 * _MAX_RELATIVE_ERROR)


def _is_linear(values: Tensor, means: Tensor, max_relative_error: float = _MAX_RELATIVE_ERROR) -> bool:
    """Return whether the means are a linear function of the values, up to rounding."""
    scale = float(means.max() - means.min())
    if not scale > 0 or not bool(values.isfinite().all()):
        return False
    centered, deviations = values - values.mean(), means - means.mean()
    slope = float((centered * deviations).sum() / centered.square().sum())
    return float((slope * centered - deviations).abs().max()) < max_relative_error * scale
