"""Count the passes of a model over parts of a batch, such as the micro-batches of an accumulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.batch_alignment import BatchAlignmentMonitor, BatchSample
from nbdebug.loop_monitor.gradient_accumulation import TrackedOptimizer
from nbdebug.loop_monitor.row_relations import RowSample
from nbdebug.tensors.pytree import tree_tensors


class BatchPartCounter:
    """Counts in the intervals of the optimizers the passes that took rows of the latest batch for the first time."""

    def __init__(self, alignment: BatchAlignmentMonitor, tracked_optimizers: Mapping[int, TrackedOptimizer]) -> None:
        self.alignment, self.tracked_optimizers = alignment, tracked_optimizers
        self.batch: BatchSample | None = None
        self.unused_rows: list[Counter[bytes]] = []

    def on_forward_begin(self, split: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a pass of the whole model."""
        batches = self.alignment.recent_batches
        if not batches or not self.alignment.is_active or split != "train" or not torch.is_grad_enabled():
            return
        if batches[-1] is not self.batch:
            self.batch, self.unused_rows = batches[-1], []
        if any(map(self._take_rows, tree_tensors((args, kwargs)))):
            for tracked in self.tracked_optimizers.values():
                tracked.interval.parts += 1

    def _take_rows(self, tensor: Tensor) -> bool:
        """Return whether a tensor has some rows of the batch, but not all, that no earlier pass took; note them."""
        samples = self.batch.samples if self.batch is not None else ()
        if not tensor.dim() or not any(0 < len(tensor) < len(sample) for sample in samples):
            return False
        part = RowSample.of(tensor)
        if part is None:
            return False
        self.unused_rows = self.unused_rows or list(map(_count_rows, samples))
        rows = _count_rows(part)
        for sample, unused in zip(samples, self.unused_rows, strict=True):
            if sample.row_size == part.row_size and len(part) < len(sample) and rows <= unused:
                unused.subtract(rows)
                return True
        return False


def _count_rows(sample: RowSample) -> Counter[bytes]:
    return Counter(row.tobytes() for row in sample.values.numpy())
