"""Real-valued targets in the order of the training loader, next to those of all samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.labels import get_flat_targets
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch

_MIN_SAMPLES, _MIN_DISTINCT = 40, 20


@dataclass(frozen=True)
class SortedTargets:
    """The share of neighboring samples with a larger and with a smaller target than the one before.

    ``pairs`` is the number of neighbors in the first batches; the ranges are those of the targets of the first batch
    and of all samples that were read.
    """

    rising: float
    falling: float
    pairs: int
    first_range: tuple[float, float]
    whole_range: tuple[float, float]


@measurement
def sorted_targets(batches: list[Batch], tables: dict[str, SplitTable]) -> SortedTargets:
    """The order of the targets of the first training batches, if each sample has one real number."""
    targets = [get_flat_targets(batch) for batch in batches]
    parts = [part for part in targets if part is not None and part.is_floating_point()]
    table = tables.get("train")
    if len(batches) < 2 or table is None or len(parts) < len(batches):
        raise NotChecked("needs several batches of samples with one real-valued target each")
    values = torch.cat(parts)
    if len(values) < _MIN_SAMPLES or len(set(values.tolist())) < _MIN_DISTINCT:
        raise NotChecked(f"the first batches have fewer than {_MIN_DISTINCT} different targets")
    changes = values.diff()
    return SortedTargets(
        float((changes > 0).float().mean()),
        float((changes < 0).float().mean()),
        len(changes),
        _range(values[: batches[0].size]),
        _range(table.targets[0]),
    )


def _range(values: Tensor) -> tuple[float, float]:
    return float(values.min()), float(values.max())
