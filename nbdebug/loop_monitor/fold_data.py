"""Samples that a loop trains on before it evaluates others: the folds of a cross-validation."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils.data import Subset

from nbdebug.loop_monitor.restored_weights import fingerprint, fingerprint_parameters
from nbdebug.source.location import SourceLine
from nbdebug.source.references import user_frames
from nbdebug.source.search import enclosing_loops, enclosing_scope

_MAX_SOURCES = 16


@dataclass(frozen=True)
class SampleSource:
    """The samples that a loader draws: its dataset, and the indices of a sampler that is restricted to some."""

    dataset: Any
    indices: Any = None

    def is_same(self, other: SampleSource) -> bool:
        """Return whether another source draws the same samples; a loop may create a subset for each epoch."""
        if self.dataset is other.dataset:
            return self.indices is other.indices
        return (
            isinstance(self.dataset, Subset)
            and isinstance(other.dataset, Subset)
            and self.dataset.dataset is other.dataset.dataset
            and [*self.dataset.indices] == [*other.dataset.indices]
        )


@dataclass(frozen=True)
class FoldEvaluation:
    """Samples that were evaluated, and those that the same weights had been trained on before the current ones.

    ``line`` is the user's outermost loop around the evaluation.
    """

    source: SampleSource
    earlier: tuple[SampleSource, ...]
    line: SourceLine | None


class FoldDataMonitor:
    """Follows where the batches come from, and whether the weights changed while they were drawn.

    Weights that change while samples are only evaluated were replaced, as before a new fold: what they were trained on
    until then does not count. A pass without a new batch since the last training pass evaluates samples of no loader.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = fingerprint_parameters(model)
        self.source: SampleSource | None = None
        self.weights = b""
        self.is_evaluated = self.has_new_batch = False
        self.trained: list[SampleSource] = []
        self.evaluations: list[FoldEvaluation] = []

    def on_batch(self, split: str, iterator: Any) -> None:
        """Record a batch by the iterator of its loader."""
        self.has_new_batch = True
        sampler = getattr(getattr(iterator, "_index_sampler", None), "sampler", None)
        source = SampleSource(getattr(iterator, "_dataset", None), getattr(sampler, "indices", None))
        if source.dataset is None or (self.source and source.is_same(self.source)):
            return
        weights = fingerprint(self.parameters.values())
        if weights != self.weights and self.is_evaluated:
            self.trained.clear()
        elif weights != self.weights and self.source:
            self.trained = [item for item in self.trained if not item.is_same(self.source)][1 - _MAX_SOURCES :]
            self.trained.append(self.source)
        self.source, self.weights, self.is_evaluated = source, weights, False

    def on_forward_begin(self) -> None:
        """Record a forward pass; the first one without gradients on some samples is an evaluation of them."""
        if torch.is_grad_enabled():
            self.has_new_batch = False
        if not self.has_new_batch or self.is_evaluated or self.source is None:
            return
        self.is_evaluated = True
        seen = [*self.trained, *(evaluation.source for evaluation in self.evaluations)]
        is_new = not any(map(self.source.is_same, seen)) and len(self.evaluations) < _MAX_SOURCES
        if is_new and len(self.trained) > 1:
            earlier = tuple(self.trained[:-1])
            self.evaluations.append(FoldEvaluation(self.source, earlier, _outermost_loop(sys._getframe(1))))


def _outermost_loop(frame: FrameType) -> SourceLine | None:
    """Return the user's outermost loop on the stack that ends in ``frame``; None if there is none."""
    for user_frame in reversed([*user_frames(frame)]):
        code = user_frame.f_code
        scope = enclosing_scope(SourceLine(code.co_filename, user_frame.f_lineno, code.co_name))
        loops = enclosing_loops(scope, user_frame.f_lineno) if scope is not None else []
        if loops:
            return SourceLine(code.co_filename, loops[-1].lineno, code.co_name)
    return None
