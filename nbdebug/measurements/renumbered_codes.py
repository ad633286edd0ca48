"""Codes of categories in the inputs that stand for other categories in the validation split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement

_MIN_CODES, _MAX_CODES, _MIN_ROWS, _MAX_COLUMNS = 4, 30, 5, 200
_FIRST_ROWS = 1_000
_ROUNDING = 1e-9
_MIN_MOVED, _MIN_SIGMA, _MAX_RENUMBERED_SIGMA = 2, 5.0, 2.5
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RenumberedCodes:
    """A column of whole numbers whose mean targets agree between the splits only after the codes are renumbered.

    ``codes`` has the validation code and the training code of the same mean target, for the codes that differ.
    ``sigma`` is the root mean square of the differences of the mean targets of all ``count`` codes as they are, in
    standard errors; ``renumbered_sigma`` is that after renumbering. ``values`` are the validation codes.
    """

    input_index: int
    column: int | None
    codes: dict[int, int]
    count: int
    sigma: float
    renumbered_sigma: float
    values: _Floats = field(repr=False, compare=False)


@dataclass(frozen=True)
class _MeanTargets:
    """Mean targets of the rows of each code, and their squared standard errors."""

    means: _Floats
    variances: _Floats


@measurement
def renumbered_codes(tables: dict[str, SplitTable]) -> RenumberedCodes | None:
    """The first input column whose codes stand for other categories in validation, by the mean target of each code.

    A target that drifts moves the mean of each code, and no exchange of codes explains that. An exchange that is linear
    in the codes is a change of scale, as of inverted pixels, and does not count.
    """
    if tables.keys() < {"train", "val"}:
        raise NotChecked("needs the samples of both splits")
    train_targets, val_targets = (tables[split].target_values() for split in ("train", "val"))
    if train_targets is None or val_targets is None:
        raise NotChecked("the targets are not one number per sample")
    for input_index, column, train_codes, val_codes in _code_columns(tables["train"], tables["val"]):
        counts = {code: min((train_codes == code).sum(), (val_codes == code).sum()) for code in np.unique(train_codes)}
        codes = [code for code, count in counts.items() if count >= _MIN_ROWS]
        if len(codes) < _MIN_CODES:
            continue
        train = _mean_targets(train_codes, train_targets, codes)
        val = _mean_targets(val_codes, val_targets, codes)
        if match := _match(train, val):
            order, sigma, renumbered_sigma = match
            if np.ptp(np.diff(np.array(codes)[order]) / np.diff(codes)) < _ROUNDING:
                continue
            moved = {int(codes[i]): int(codes[j]) for i, j in enumerate(order) if i != j}
            return RenumberedCodes(input_index, column, moved, len(codes), sigma, renumbered_sigma, val_codes)
    return None


def _code_columns(train: SplitTable, val: SplitTable) -> Iterator[tuple[int, int | None, Any, Any]]:
    """Yield the columns of a few whole numbers that both splits share: input, column, and values of both splits."""
    for index, (train_part, val_part) in enumerate(zip(train.inputs, val.inputs, strict=False)):
        if train_part.dim() > 2 or train_part.shape[1:] != val_part.shape[1:] or train_part.is_complex():
            continue
        columns = range(min(train_part.shape[1], _MAX_COLUMNS)) if train_part.dim() == 2 else (None,)
        for column in columns:
            parts = [part if column is None else part[:, column] for part in (train_part, val_part)]
            if not _may_be_codes(parts[0]):
                continue
            own, other = (part.double().numpy() for part in parts)
            if _are_whole(own) and _are_whole(other) and len(np.unique(own)) <= _MAX_CODES:
                yield index, column, own, other


def _may_be_codes(column: Tensor) -> bool:
    """Return whether the first values are whole and all lie far enough apart for the fewest codes, at little cost."""
    if not len(column) or not _are_whole(column[:_FIRST_ROWS].double().numpy()):
        return False
    least, most = column.aminmax()
    return float(most) - float(least) >= _MIN_CODES - 1


def _are_whole(values: _Floats) -> bool:
    return bool((values == np.round(values)).all())


def _mean_targets(codes: Any, targets: _Floats, kept: list[Any]) -> _MeanTargets:
    groups = [targets[codes == code] for code in kept]
    rows = np.array([len(group) for group in groups])
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / max(rows.sum() - len(groups), 1)
    return _MeanTargets(np.array([group.mean() for group in groups]), np.maximum(within, 1e-12) / rows)


def _match(train: _MeanTargets, val: _MeanTargets) -> tuple[list[int], float, float] | None:
    """Return the training code of each validation code, if renumbering explains different means; else None."""
    from scipy.optimize import linear_sum_assignment

    squared = (val.means[:, None] - train.means) ** 2 / (val.variances[:, None] + train.variances)
    own = squared.diagonal()
    if (own > _MIN_SIGMA**2).sum() < _MIN_MOVED:
        return None
    _, order = linear_sum_assignment(squared)
    best = squared[np.arange(len(order)), order]
    is_moved = order != np.arange(len(order))
    explains = (own[is_moved] > _MIN_SIGMA**2).sum() >= _MIN_MOVED and own[~is_moved].max(initial=0) < _MIN_SIGMA**2
    sigma, renumbered_sigma = float(own.mean() ** 0.5), float(best.mean() ** 0.5)
    return (order.tolist(), sigma, renumbered_sigma) if explains and renumbered_sigma < _MAX_RENUMBERED_SIGMA else None
