"""Count the steps that accumulate the losses of several batches, or of parts of a batch, divided or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.batch_alignment import BatchAlignmentMonitor, BatchSample
from nbdebug.loop_monitor.gradient_accumulation import StepInterval, TrackedOptimizer
from nbdebug.loop_monitor.row_relations import RowSample, find_row_relation
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_WEIGHT_TOLERANCE = 0.02  # of the weight of a divided loss


@dataclass(frozen=True)
class GradientAccumulation:
    """Counts of the inspected steps, and of those that accumulated several backward passes.

    ``undivided_steps`` of them summed the undivided losses of several batches at one ``line``; ``passes`` is their
    typical number of passes. ``are_parts`` tells whether these were passes over parts of one batch. In
    ``divided_steps`` and ``twice_divided_steps``, each of ``divided_passes`` losses entered with one over that number,
    and over its square. ``adaptive`` tells whether the optimizer is invariant to a constant factor.
    """

    checked_steps: int = 0
    undivided_steps: int = 0
    passes: int = 0
    line: SourceLine | None = None
    adaptive: bool = False
    divided_steps: int = 0
    twice_divided_steps: int = 0
    divided_passes: int = 0
    are_parts: bool = False


class AccumulationCounter:
    """Counts the steps."""

    def __init__(self) -> None:
        self.checked_steps = 0
        self.undivided_steps: Counter[int] = Counter()
        self.divided_steps: dict[int, Counter[int]] = {1: Counter(), 2: Counter()}
        self.line: SourceLine | None = None
        self.adaptive = self.are_parts = False

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Record the start of a step that closes an interval."""
        interval = tracked.interval
        if not interval.inspected or not interval.passes:
            return
        self.checked_steps += 1
        pass_count, lines = interval.passes, interval.lines
        are_parts = interval.batches < pass_count
        if pass_count < 2 or len(lines) > 1 or (are_parts and not _are_of_parts(interval)):
            return
        is_undivided = interval.undivided_passes == pass_count
        self.undivided_steps[pass_count] += is_undivided
        power = next((power for power in (1, 2) if _are_close(interval.largest_weights, pass_count**-power)), 0)
        if power and not is_undivided:
            self.divided_steps[power][pass_count] += 1
        (self.line,), self.adaptive, self.are_parts = lines, _is_adaptive(tracked), are_parts

    def summary(self) -> GradientAccumulation:
        """Return all counts."""
        typical_passes = max(self.undivided_steps, key=lambda pass_count: self.undivided_steps[pass_count], default=0)
        divided, twice = self.divided_steps[1], self.divided_steps[2]
        return GradientAccumulation(
            self.checked_steps,
            self.undivided_steps.total(),
            typical_passes,
            self.line,
            self.adaptive,
            divided.total(),
            twice.total(),
            next((count for count, _ in (divided + twice).most_common(1)), 0),
            self.are_parts,
        )


def _are_of_parts(interval: StepInterval) -> bool:
    """Return whether each backward pass came from a loss of torch on other rows of a batch."""
    return interval.parts == interval.passes and all(interval.largest_weights)


def _are_close(weights: Sequence[float], expected: float) -> bool:
    return bool(weights) and all(abs(weight - expected) <= _WEIGHT_TOLERANCE * expected for weight in weights)


def _is_adaptive(tracked: TrackedOptimizer) -> bool:
    """Check whether an optimizer divides gradients by their own magnitude, as those with a squared average do."""
    group = tracked.optimizer.param_groups[0]
    return bool({"betas", "alpha", "rho", "lr_decay", "etas", "beta2_decay"} & set(group)) and "lambd" not in group


class BatchPartCounter:
    """Counts in the intervals of the optimizers the passes that took rows of the latest batch for the first time.

    Rows that the loop has rescaled are recognized once all of them were passed: then they are those of the batch after
    one scaling and shift of each position.
    """

    def __init__(self, alignment: BatchAlignmentMonitor, tracked_optimizers: Mapping[int, TrackedOptimizer]) -> None:
        self.alignment, self.tracked_optimizers = alignment, tracked_optimizers
        self.batch: BatchSample | None = None
        self.unused_rows: list[Counter[bytes]] = []
        self.rescaled = _RescaledParts()

    def on_forward_begin(self, split: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a pass of the whole model."""
        batches = self.alignment.recent_batches
        if not batches or not self.alignment.is_active or split != "train" or not torch.is_grad_enabled():
            return
        if batches[-1] is not self.batch:
            self.batch, self.unused_rows, self.rescaled = batches[-1], [], _RescaledParts()
        tensors, intervals = tree_tensors((args, kwargs)), [t.interval for t in self.tracked_optimizers.values()]
        parts = int(any(map(self._take_rows, tensors))) or self.rescaled.add(tensors, self.batch.samples, intervals)
        for interval in intervals:
            interval.parts += parts

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


@dataclass
class _RescaledParts:
    """Inputs of passes in the same intervals whose rows are not those of the batch as they are."""

    parts: list[RowSample] = field(default_factory=list)
    intervals: list[StepInterval] = field(default_factory=list)

    def add(self, tensors: Sequence[Tensor], samples: Sequence[RowSample], intervals: list[StepInterval]) -> int:
        """Add the inputs of a pass; return the number of passes if they have taken each row of the batch once."""
        if any(first is not second for first, second in zip_longest(self.intervals, intervals)):
            self.parts, self.intervals = [], intervals
        parts = [part for tensor in tensors if tensor.dim() and (part := RowSample.of(tensor))]
        pairs = [(part, sample) for part in parts for sample in samples if _is_smaller(part, sample)]
        if not pairs:
            return 0
        part, sample = pairs[0]
        self.parts = [*(other for other in self.parts if other.row_size == part.row_size), part]
        if sum(map(len, self.parts)) != len(sample):
            return 0
        together = RowSample(torch.cat([other.values for other in self.parts]), part.row_size)
        return len(self.parts) if find_row_relation(together, sample) else 0


def _is_smaller(part: RowSample, sample: RowSample) -> bool:
    return part.row_size == sample.row_size and len(part) < len(sample)


def _count_rows(sample: RowSample) -> Counter[bytes]:
    return Counter(row.tobytes() for row in sample.values.numpy())
