"""What an evaluation passes to the model, compared by value with its batches: rows in another order, or truncated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.row_relations import RowSample, find_row_relation
from nbdebug.setup.losses import score_tensor
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.tensors.pytree import tree_tensors

_MAX_PASSES, _MAX_TENSORS, _MAX_VALUES = 16, 8, 2**21
_MIN_PASSES, _MIN_ROWS = 2, 8


@dataclass(frozen=True)
class ChangedInputs:
    """Passes of evaluations whose inputs are those of the batch in another order or without their fractions.

    Of ``passes`` inspected ones, ``misaligned`` had other orders of inputs and targets, and the loop compared the
    predictions with these targets. ``truncated`` had inputs without their fractions. ``line`` called the model.
    """

    passes: int = 0
    misaligned: int = 0
    truncated: int = 0
    line: SourceLine | None = None

    @property
    def are_misaligned(self) -> bool:
        """True if at least two passes were misaligned, and most of the inspected ones."""
        return self.misaligned >= _MIN_PASSES and 2 * self.misaligned > self.passes

    @property
    def are_truncated(self) -> bool:
        """True if all inspected passes, at least two, had truncated inputs."""
        return self.truncated == self.passes >= _MIN_PASSES


class EvaluatedInputMonitor:
    """Compares the inputs of passes without gradients with their batch, and then what predictions are compared with.

    Rows that are evaluated in another order, such as that of their lengths, and whose predictions are put back in order
    do not count: the loop must compare the output as it is, or decisions that are made from it, with the targets in the
    order of the batch.
    """

    def __init__(self) -> None:
        self.batch: list[Tensor] = []
        self.targets: list[Tensor] = []
        self.output: Tensor | None = None
        self.passes = self.misaligned = self.truncated = 0
        self.line: SourceLine | None = None

    @property
    def wants_output(self) -> bool:
        """True if the output of the current pass is to be followed."""
        return bool(self.targets)

    def on_batch(self, split: str, batch: Any) -> None:
        """Keep the batch of a validation loader until its first pass."""
        is_inspected = split == "val" and self.passes < _MAX_PASSES
        self.batch, self.targets, self.output = tree_tensors(batch)[:_MAX_TENSORS] if is_inspected else [], [], None

    def on_forward_begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compare the inputs of the first pass after a batch with it."""
        batch, self.batch, self.targets, self.output = self.batch, [], [], None
        if not batch or torch.is_grad_enabled():
            return
        self.passes += 1
        inputs = tree_tensors((args, kwargs))[:_MAX_TENSORS]
        if any(value is part for value in inputs for part in batch):
            return
        samples = [sample for value in inputs if (sample := RowSample.of(value))]
        references = {number: RowSample.of(part) for number, part in enumerate(batch) if part.is_floating_point()}
        pairs = [(sample, number, reference) for number, reference in references.items() for sample in samples]
        for sample, number, reference in pairs:
            if reference is not None and self.compare(sample, reference, batch[:number] + batch[number + 1 :]):
                return

    def compare(self, sample: RowSample, reference: RowSample, others: list[Tensor]) -> bool:
        """Compare an input with a part of the batch, and return whether it derives from it; ``others`` are the rest."""
        relation = find_row_relation(sample, reference)
        is_truncated = _is_truncated(sample, reference)
        if relation is None and not is_truncated:
            return False
        self.truncated += is_truncated
        if relation is not None and relation.order is not None:
            self.targets = [target for target in others if _is_moved(target, relation.order)]
        if is_truncated or self.targets:
            self.line = self.line or get_calling_line(sys._getframe(2))
        return True

    def on_forward_end(self, output: Any) -> None:
        """Keep the output of a pass on rows in another order."""
        scores = score_tensor(output) if self.targets else None
        if isinstance(scores, Tensor) and not scores.is_nested and scores.numel() <= _MAX_VALUES:
            self.output = scores.detach()

    @torch.no_grad()
    def on_operands(self, left: Any, right: Any) -> None:
        """Count a pass whose predictions meet targets in the order of the batch, once."""
        if self.output is None or not isinstance(left, Tensor) or not isinstance(right, Tensor):
            return
        for prediction, target in ((left, right), (right, left)):
            if any(_have_equal_values(target, kept) for kept in self.targets) and self.is_prediction(prediction):
                self.misaligned += 1
                self.output, self.targets = None, []
                return

    def is_prediction(self, values: Tensor) -> bool:
        """Check whether values are the output, or decisions from it, in its order."""
        return self.output is not None and any(_have_equal_values(values, made) for made in _decisions(self.output))

    def summary(self) -> ChangedInputs:
        """Return all counts."""
        return ChangedInputs(self.passes, self.misaligned, self.truncated, self.line)


def _is_moved(target: Tensor, order: Tensor) -> bool:
    """Check whether the values of a target show that its rows are taken in another order."""
    if not target.dim() or not len(target) == len(order) >= _MIN_ROWS or target.numel() > _MAX_VALUES:
        return False
    return not torch.equal(target[order.to(target.device)], target)


def _decisions(output: Tensor) -> Iterator[Tensor]:
    yield output
    if output.is_floating_point():
        yield from (output > threshold for threshold in (0.0, 0.5))
        yield from (output.argmax(axis) for axis in range(1, output.dim()))


def _have_equal_values(values: Tensor, others: Tensor) -> bool:
    if values.numel() != others.numel() or values.device != others.device:
        return False
    return torch.equal(values.flatten().double(), others.flatten().double())


def _is_truncated(sample: RowSample, reference: RowSample) -> bool:
    """Check whether inputs are those of the batch without their fractions, and are not rounded on purpose."""
    if not sample.is_comparable_with(reference) or len(sample) < _MIN_ROWS:
        return False
    is_cut = torch.equal(sample.values, reference.values.trunc())
    return is_cut and not torch.equal(sample.values, reference.values.round())
