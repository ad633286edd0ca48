"""Training inputs and targets that are both sorted, while validation samples are in no common order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement

_MIN_ROWS, _MIN_VAL_ROWS, _MAX_VAL_ROWS, _SAMPLED_ROWS = 50, 40, 400, 64
_MIN_DISTINCT, _MAX_EQUAL_SHARE = 10, 0.5  # values of a sorted column; fewer may be a code of the class
_MAX_COLUMNS = 8  # sorted columns to compare with the targets
_MAX_SPACING_ERROR = 1e-3  # of the mean step: running numbers and grids are evenly spaced
_MIN_CONTRASTS = 5  # validation samples without the most frequent target; one odd sample is in most of its pairs
_MAX_CORRELATION = 0.9999  # of a column that is not a copy of the target
_CLOCK = 0.75  # of the validation rows rise or fall from one to the next: times are in order there too


@dataclass(frozen=True)
class SeparateOrders:
    """A column of the inputs and a target that are both sorted in training.

    ``opposite`` is the share of pairs of validation samples whose target is in the opposite order, among the ``pairs``
    with two values of each.
    """

    column: str
    rows: int
    opposite: float
    pairs: int


@measurement
def separate_orders(tables: dict[str, SplitTable]) -> SeparateOrders | None:
    """The sorted column of training inputs that orders the validation targets least, if training targets are sorted."""
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or len(train) < _MIN_ROWS or len(val) < _MIN_VAL_ROWS:
        raise NotChecked(f"needs {_MIN_ROWS} training and {_MIN_VAL_ROWS} validation samples")
    if len(train.targets) != 1 or len(val.targets) != 1 or len(train.inputs) != len(val.inputs):
        raise NotChecked("the samples do not have one target each")
    if not train.targets[0].numel() or not val.targets[0].numel() or train.targets[0].is_complex():
        raise NotChecked("the targets are not real numbers")
    order = torch.arange(len(train)) if isinstance(train.indices, range) else torch.as_tensor(train.indices).argsort()
    target = train.targets[0].reshape(len(train), -1)[order, 0].double()
    if not _is_sorted(target[:, None])[0]:
        return None
    val_target = val.targets[0].reshape(len(val), -1)[:, 0].double()
    compared = (
        _compare(title, column, target, val_column, val_target)
        for title, column, val_column in _sorted_columns(train, val, order)
    )
    return max((orders for orders in compared if orders), key=lambda orders: orders.opposite, default=None)


def _sorted_columns(train: SplitTable, val: SplitTable, order: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield the columns, and means over a row, that are sorted in training, each with its validation values."""
    sampled = order[torch.linspace(0, len(order) - 1, _SAMPLED_ROWS).long()]
    for number, (part, val_part) in enumerate(zip(train.inputs, val.inputs, strict=True)):
        if part.is_complex() or part.shape[1:] != val_part.shape[1:] or not part.numel():
            continue
        rows, val_rows = part.reshape(len(part), -1), val_part.reshape(len(val_part), -1)
        title = "the inputs" if len(train.inputs) == 1 else f"input {number}"
        for column in _is_sorted(rows[sampled]).nonzero().flatten()[:_MAX_COLUMNS].tolist():
            yield f"value {column} of {title}", rows[order, column].double(), val_rows[:, column].double()
        if rows.shape[1] > 1 and bool(_is_sorted(rows[sampled].double().mean(1, keepdim=True))[0]):
            yield f"the mean of {title}", rows[order].double().mean(1), val_rows.double().mean(1)


def _compare(
    title: str, column: Tensor, target: Tensor, val_column: Tensor, val_target: Tensor
) -> SeparateOrders | None:
    """Compare the order of a column and the targets in both splits; None if they need not have been sorted apart."""
    counts = torch.unique_consecutive(column, return_counts=True)[1]
    is_varied = len(counts) >= _MIN_DISTINCT and int(counts.max()) <= _MAX_EQUAL_SHARE * len(column)
    if not bool(_is_sorted(column[:, None])[0]) or not is_varied or _is_evenly_spaced(column):
        return None
    if float(torch.corrcoef(torch.stack([column, target]))[0, 1].abs()) > _MAX_CORRELATION or _is_clock(val_column):
        return None
    is_inside = (val_column >= column.min()) & (val_column <= column.max()) & val_target.isfinite()
    if int(is_inside.sum()) < max(_MIN_VAL_ROWS, len(val_column) / 2):
        return None
    inside = is_inside.nonzero().flatten()
    inside = inside[torch.randperm(len(inside), generator=torch.Generator().manual_seed(0))[:_MAX_VAL_ROWS]]
    values, targets = val_column[inside], val_target[inside]
    if int((targets != targets.mode().values).sum()) < _MIN_CONTRASTS:
        return None
    signs = (values[:, None] - values).sign() * (targets[:, None] - targets).sign()
    direction = (column[-1] - column[0]).sign() * (target[-1] - target[0]).sign()
    pairs = int((signs != 0).sum()) // 2
    return SeparateOrders(title, len(column), int((signs == -direction).sum()) / 2 / max(pairs, 1), pairs)


def _is_sorted(columns: Tensor) -> Tensor:
    """Return for each column whether its values only rise or only fall, and are not all equal."""
    before, after = columns[:-1], columns[1:]
    is_monotone = (after >= before).all(0) | (after <= before).all(0)
    return is_monotone & (columns[0] != columns[-1])


def _is_evenly_spaced(column: Tensor) -> bool:
    steps = column.diff()
    return bool((steps - steps.mean()).abs().max() <= _MAX_SPACING_ERROR * steps.mean().abs())


def _is_clock(values: Tensor) -> bool:
    """Return whether values are in order from row to row, such as the times of several recordings."""
    steps = values.diff()
    return max(float((steps > 0).float().mean()), float((steps < 0).float().mean())) >= _CLOCK
