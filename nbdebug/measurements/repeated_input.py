"""An input that most training samples share, and what the inputs can then explain of the targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.row_search import get_row_keys

_MIN_SAMPLES, _MIN_VALUES, _MIN_SHARE = 50, 2, 0.5
_SHOWN_VALUES = 4


@dataclass(frozen=True)
class RepeatedInput:
    """The input that most training samples have, and their targets in words.

    ``explained`` is the largest share of the variance of the targets that a function of the inputs can explain, without
    what as many random groups of samples would.
    """

    count: int
    samples: int
    description: str
    targets: str
    explained: float

    def hides_targets(self, share: float, explained: float) -> bool:
        """Return whether nearly all samples, but not all, have this input, and inputs explain little."""
        return share * self.samples <= self.count < self.samples and self.explained <= explained


@measurement
def repeated_input(tables: dict[str, SplitTable]) -> RepeatedInput | None:
    """The input that most training samples with real-valued targets or classes have; None if there is none.

    Of other targets, such as a class for each position, only samples that all have one input are reported.
    """
    table = tables.get("train")
    if table is None or len(table) < _MIN_SAMPLES or not table.inputs:
        raise NotChecked(f"fewer than {_MIN_SAMPLES} training samples can be read")
    if not table.may_have_equal_inputs or sum(part[0].numel() for part in table.inputs) < _MIN_VALUES:
        return None
    targets, keys = _get_targets(table), get_row_keys(table.inputs)
    if targets is None:
        return _equal_input(table, keys)
    commonest, count = Counter(keys).most_common(1)[0]
    if count < _MIN_SHARE * len(keys):
        return None
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    groups = torch.tensor([numbers[key] for key in keys])
    of_commonest = targets[groups == numbers[commonest]]
    return RepeatedInput(
        count,
        len(keys),
        _describe([part[keys.index(commonest)] for part in table.inputs]),
        f"{_count_different(of_commonest)} different labels"
        if table.labels is not None
        else f"targets from {float(of_commonest.min()):.4g} to {float(of_commonest.max()):.4g}",
        _explained_share(targets, groups),
    )


def _equal_input(table: SplitTable, keys: list[Hashable]) -> RepeatedInput | None:
    """Return the input that all samples have, although their targets differ; None if there is none."""
    different = len(set(get_row_keys(table.targets))) if table.targets and len(set(keys)) == 1 else 0
    if different < _MIN_VALUES:
        return None
    first = [part[0] for part in table.inputs]
    return RepeatedInput(len(keys), len(keys), _describe(first), f"{different} different targets", 0.0)


def _count_different(flags: Tensor) -> int:
    return int(flags.any(0).sum())


def _get_targets(table: SplitTable) -> Tensor | None:
    """Return the targets with one row for each sample, classes as flags; None if they do not vary, or are others."""
    if table.labels is not None:
        classes = table.labels.unique(return_inverse=True)[1]  # type: ignore[no-untyped-call]
        return one_hot(classes).double() if int(classes.max()) else None
    target = table.targets[0] if len(table.targets) == 1 else None
    if target is None or not target.is_floating_point() or not target.numel():
        return None
    rows = target.reshape(len(target), -1).double()
    return rows if bool(rows.isfinite().all()) and float(rows.var(0).sum()) > 0 else None


def _explained_share(targets: Tensor, groups: Tensor) -> float:
    """Return the share of the variance between groups, adjusted for the number of groups."""
    sizes = torch.bincount(groups)
    means = torch.zeros(len(sizes), targets.shape[1], dtype=targets.dtype).index_add_(0, groups, targets)
    within = float((targets - (means / sizes[:, None])[groups]).square().sum()) / max(len(targets) - len(sizes), 1)
    return max(0.0, 1 - within / float(targets.var(0).sum()))


def _describe(inputs: list[Tensor]) -> str:
    """Return the values of an input in words."""
    values = torch.cat([part.flatten().double() for part in inputs])
    if bool((values == values[0]).all()):
        return f"all {len(values)} values are {float(values[0]) + 0.0:.4g}"
    shown = ", ".join(f"{float(value) + 0.0:.4g}" for value in values[:_SHOWN_VALUES])
    return shown + (", ..." if len(values) > _SHOWN_VALUES else "")
