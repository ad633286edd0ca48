"""Predictions or targets of a training batch that a loop compares with those of validation batches."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.tensors.pytree import tree_tensors

_MAX_COMPARISONS, _MAX_BATCHES, _MAX_TENSORS, _MAX_VALUES = 64, 64, 4, 100_000
_MIN_COMPARISONS, _MIN_ROWS = 3, 8
_METHODS = ("__eq__", "eq", "__ne__", "ne")
StaleKind = Literal["predictions", "targets"]
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class StalePredictions:
    """A line that compares several validation batches with the predictions, or the targets, of one training batch."""

    line: SourceLine
    comparisons: int
    kind: StaleKind


@dataclass
class _LineComparisons:
    """The comparisons on one line: those with stale predictions or targets, and whether there were others."""

    stale: Counter[StaleKind] = field(default_factory=Counter)
    has_others: bool = False

    @property
    def only_kind(self) -> StaleKind | None:
        """What was stale in all comparisons, of which there were several; None otherwise."""
        kinds = [kind for kind, count in self.stale.items() if count >= _MIN_COMPARISONS]
        return kinds[0] if len(kinds) == len(self.stale) == 1 and not self.has_others else None


class StalePredictionMonitor:
    """Compares the operands of ``==`` with the batch of the validation loader and the latest output in training.

    A comparison counts if one operand holds the values of a tensor of the latest validation batch, and the other the
    classes that the latest output in training predicts, with more than one class; or if one holds the values of a
    tensor of the latest training batch, and the other the classes that the latest validation output predicts. A model
    that returns the same classes for every validation batch is excluded, since these batches would then have equal
    predictions of their own.
    """

    def __init__(self, has_validation: bool) -> None:
        self.has_validation = has_validation
        self.split = ""
        self.comparisons = self.batches = 0
        self.targets, self.training_targets = list[Tensor](), list[Tensor]()
        self.training_outputs, self.fresh_outputs = list[Tensor](), list[Tensor]()
        self.by_line: dict[SourceLine, _LineComparisons] = {}

    @property
    def wants_output(self) -> bool:
        """True if the next output is to be kept until the next one."""
        return self.has_validation and self.batches < _MAX_BATCHES

    def on_batch(self, split: str, batch: Any) -> None:
        """Record a batch of any loader."""
        self.split, self.fresh_outputs = split, []
        is_inspected = split == "val" and bool(self.training_outputs) and self.wants_output
        self.batches += split == "val"
        self.targets = tree_tensors(batch)[1 : 1 + _MAX_TENSORS] if is_inspected else []
        if split == "train":
            self.training_targets = tree_tensors(batch)[1 : 1 + _MAX_TENSORS] if self.wants_output else []
        if not self.wants_output:
            self.training_outputs = []

    def on_forward_end(self, output: Any) -> None:
        """Keep the values of an output, of which only the latest of each phase is needed."""
        inspected = filter(_is_inspected, tree_tensors(output)) if self.wants_output else ()
        values = [tensor.detach() for tensor in islice(inspected, _MAX_TENSORS)]
        if self.split == "train" and torch.is_grad_enabled():
            self.training_outputs = values
        elif self.split == "val":
            self.fresh_outputs = values

    def comparison_callbacks(self, wrap_callback: _CallbackWrapper) -> Iterator[tuple[str, Callable[[Any], None]]]:
        """Yield each method of tensors that compares values, and the callback before its calls."""
        inspect = wrap_callback(self.inspect)

        def on_comparison(call: tuple[Any, Any, Any]) -> None:
            operand, others, _ = call
            if not self.targets or not others or not type(operand) is type(others[0]) is Tensor or operand.is_nested:
                return
            if operand.shape == others[0].shape and operand.numel() >= _MIN_ROWS:
                inspect((operand, others[0]))

        yield from ((method, on_comparison) for method in _METHODS)

    @torch.no_grad()
    def inspect(self, pair: tuple[Tensor, Tensor]) -> None:
        """Inspect two tensors of one shape that are about to be compared after a validation batch."""
        if self.comparisons >= _MAX_COMPARISONS or not self.training_outputs:
            return
        of_batch, of_training = self._positions(pair, self.targets), self._positions(pair, self.training_targets)
        sides = of_batch or of_training
        if len(sides) != 1:  # neither side is a target, or the predictions are perfect
            return
        self.comparisons += 1
        targets, predictions = pair[sides[0]], pair[1 - sides[0]]
        line = get_calling_line(sys._getframe(1))
        if line is None or not _varies(predictions) or not _varies(targets):
            return
        is_old = any(_are_predicted_by(output, predictions) for output in self.training_outputs)
        is_fresh = any(_are_predicted_by(output, predictions) for output in self.fresh_outputs)
        comparisons = self.by_line.setdefault(line, _LineComparisons())
        if of_batch:
            comparisons.stale["predictions"] += is_old and not is_fresh
            comparisons.has_others |= not is_old
        else:
            comparisons.stale["targets"] += is_fresh
            comparisons.has_others |= not is_fresh

    def _positions(self, pair: tuple[Tensor, Tensor], targets: list[Tensor]) -> list[int]:
        """Return which tensors of a pair hold the values of a target."""
        return [i for i in (0, 1) if any(_have_equal_values(pair[i], target) for target in targets)]

    def summary(self) -> tuple[StalePredictions, ...]:
        """Return the lines on which all comparisons used the predictions, or the targets, of a training batch."""
        return tuple(
            StalePredictions(line, comparisons.stale[kind], kind)
            for line, comparisons in self.by_line.items()
            if (kind := comparisons.only_kind) is not None
        )


def _is_inspected(output: Tensor) -> bool:
    return output.is_floating_point() and not output.is_nested and _MIN_ROWS <= output.numel() <= _MAX_VALUES


def _have_equal_values(values: Tensor, target: Tensor) -> bool:
    """Return whether two tensors hold the same values, in any shape, of any type and on any device."""
    return values.numel() == target.numel() and bool((values.flatten() == target.flatten().to(values.device)).all())


def _varies(values: Tensor) -> bool:
    return not bool(torch.eq(values, values.flatten()[0]).all())


def _are_predicted_by(scores: Tensor, predictions: Tensor) -> bool:
    """Return whether predictions are the classes of some scores: the largest along an axis, or above a threshold."""
    if scores.numel() == predictions.numel():
        flat, classes = scores.flatten(), predictions.flatten().to(scores.device)
        return any(bool(((flat > limit) == (classes > 0)).all()) for limit in (0.0, 0.5))
    axes = {axis for axis in (1, scores.dim() - 1) if 0 < axis < scores.dim()}
    return any(_have_equal_values(scores.argmax(axis), predictions) for axis in axes)
