"""Columns whose scaling or decorrelation was fitted to training and validation together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.measurements.dataset_rows import SplitTable

_Floats = NDArray[np.float64]
_MIN_ROWS, _MIN_COLUMNS, _MAX_COLUMNS, _MIN_DISTINCT = 20, 2, 2048, 10
# Of the means and deviations of values in single precision, and as a share of the standard error of a mean, so that few
# columns have an exact mean by chance. Training alone must be ten times farther away.
_MAX_DEVIATION, _MAX_SHARE_OF_ERROR, _MIN_RATIO = 1e-4, 0.02, 10.0
_RANGE_ERROR, _RANGES = 1e-6, ((0.0, 1.0), (-1.0, 1.0))
_MAX_DECORRELATED = 256


@dataclass(frozen=True)
class JointScaling:
    """How many of ``columns`` have statistics that are exact over the rows of both splits, but not over training.

    ``standardized`` columns have mean 0 and deviation 1, ``ranges`` a minimum and a maximum of 0 or -1 and 1, one of
    them in validation only, and ``decorrelated`` ones mean 0 and no correlation with each other. ``names`` are those of
    the affected columns. ``is_decidable`` is False if not all rows of both splits were read.
    """

    is_decidable: bool
    columns: int = 0
    standardized: int = 0
    ranges: int = 0
    decorrelated: int = 0
    names: tuple[str, ...] = ()

    @property
    def is_fault(self) -> bool:
        """True if columns were fitted to the rows of both splits."""
        return bool(self.names)

    @property
    def text(self) -> str:
        """The statistics that are exact over both splits, in words."""
        kinds = {
            "mean 0 and standard deviation 1": self.standardized,
            "a range from 0 or -1 to 1": self.ranges,
            "mean 0 and no correlation": self.decorrelated,
        }
        exact = " and ".join(f"{kind} ({count:,} columns)" for kind, count in kinds.items() if count)
        return (
            f"the preprocessing was fitted to training and validation together: over the rows of both, columns have "
            f"exactly {exact}, but not over training alone, such as {self.names[0]}"
        )


def find_joint_scaling(tables: Mapping[str, SplitTable], names: Sequence[str] | None) -> JointScaling | None:
    """Compare the statistics of the columns over both splits with those over training.

    A fitted scaler gives the rows that it was fitted to a mean of exactly 0 and a deviation of exactly 1, within single
    precision. Needs all rows of both splits, and two such columns. Returns None without columns of real numbers.
    """
    if not {"train", "val"} <= set(tables):
        return None
    train, val = _columns(tables["train"]), _columns(tables["val"])
    if train is None or val is None or train.shape[1] != val.shape[1]:
        return None
    if not (tables["train"].is_complete and tables["val"].is_complete):
        return JointScaling(False, train.shape[1])
    both = np.vstack([train, val])
    is_real = np.array([len(np.unique(column[:1000])) >= _MIN_DISTINCT for column in both.T])
    if is_real.sum() < _MIN_COLUMNS or not np.isfinite(both).all():
        return None
    by_kind = {
        "standardized": is_real & _standardized_jointly(train, both),
        "ranges": is_real & _ranged_jointly(train, val, both),
    }
    by_kind = {kind: mask if mask.sum() >= _MIN_COLUMNS else np.zeros_like(mask) for kind, mask in by_kind.items()}
    by_kind["decorrelated"] = _decorrelated_jointly(train, both, is_real & ~by_kind["standardized"])
    affected = np.flatnonzero(np.any(list(by_kind.values()), axis=0))
    has_names = names is not None and len(names) == train.shape[1]
    titles = tuple(names[index] if has_names and names else f"column {index}" for index in affected.tolist())
    counts = {kind: int(mask.sum()) for kind, mask in by_kind.items()}
    return JointScaling(True, int(is_real.sum()), **counts, names=titles)


def _columns(table: SplitTable) -> _Floats | None:
    """Return the real columns of the inputs that are rows of numbers; None without them, or for few rows."""
    parts = [part for part in table.inputs if part.dim() == 2 and part.is_floating_point() and part.numel()]
    if not parts or len(table) < _MIN_ROWS or sum(part.shape[1] for part in parts) > _MAX_COLUMNS:
        return None
    columns: _Floats = torch.cat(parts, 1).double().numpy()
    return columns


def _tolerance(rows: int) -> float:
    return float(min(_MAX_DEVIATION, _MAX_SHARE_OF_ERROR / np.sqrt(rows)))


def _standardized_jointly(train: _Floats, both: _Floats) -> NDArray[np.bool_]:
    """Return the columns with mean 0 and deviation 1 over both splits; the deviation may have either denominator."""
    correction = np.sqrt(len(both) / (len(both) - 1))
    own, joint = (
        np.maximum(np.abs(rows.mean(0)), np.minimum(*(np.abs(rows.std(0) * factor - 1) for factor in (1, correction))))
        for rows in (train, both)
    )
    result: NDArray[np.bool_] = (joint <= _tolerance(len(both))) & (own > _MIN_RATIO * np.maximum(joint, 1e-6))
    return result


def _ranged_jointly(train: _Floats, val: _Floats, both: _Floats) -> NDArray[np.bool_]:
    """Return the columns with an exact range over both splits of which an end is in validation only, in one row."""
    low, high = both.min(0), both.max(0)
    exact = np.zeros(both.shape[1], bool)
    for start, end in _RANGES:
        exact |= (np.abs(low - start) <= _RANGE_ERROR) & (np.abs(high - end) <= _RANGE_ERROR)
    single = ((val <= low).sum(0) == 1) & (train.min(0) > low + _RANGE_ERROR)
    single |= ((val >= high).sum(0) == 1) & (train.max(0) < high - _RANGE_ERROR)
    result: NDArray[np.bool_] = exact & single
    return result


def _decorrelated_jointly(train: _Floats, both: _Floats, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the columns with mean 0 and no correlation with each other over both splits, as principal components."""
    result = np.zeros(both.shape[1], bool)
    limit = _tolerance(len(both))
    is_centered = np.abs(both.mean(0)) <= limit * np.maximum(both.std(0), 1e-12)
    chosen = np.flatnonzero(candidates & is_centered)[:_MAX_DECORRELATED]
    if len(chosen) <= _MIN_COLUMNS:
        return result
    joint, own = (_largest_correlation(rows[:, chosen]) for rows in (both, train))
    if joint <= limit and own > _MIN_RATIO * limit:
        result[chosen] = True
    return result


def _largest_correlation(rows: _Floats) -> float:
    correlations = np.atleast_2d(np.corrcoef(rows, rowvar=False))
    return float(np.abs(correlations[np.triu_indices(len(correlations), 1)]).max())
