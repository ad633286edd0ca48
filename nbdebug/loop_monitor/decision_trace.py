"""Traces the calls with which an evaluation turns scores into decisions; counts those along an axis of one value."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.write_trace import CallTrace, calling_line, is_plain_tensor
from nbdebug.loop_monitor.wrong_decisions import WrongDecisionCounter
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

MIN_DECISIONS = 2
_MAX_TRACES, _MIN_ROWS = 64, 8
_COMPARING_CALLS = {"eq", "ne", "sub", "rsub", "subtract"}  # a difference compares values of a regression
_LOSS_ENDINGS = ("loss", "entropy", "entropy_with_logits")
_INDEXING_CALLS = {"argmax", "argmin", "max", "min", "topk", "sort", "argsort"}


class DecisionTrace(CallTrace):
    """Counts, by line and call, the indices that torch returns along an axis of one value, which are all zero.

    An index along such an axis is recognized by its values: there are as many as there are scores, and all are zero.
    All calls are passed to ``wrong_decisions`` too, the operands of comparisons to ``on_comparison``, and those of
    comparisons and losses to ``on_operands``.
    """

    max_uses = _MAX_TRACES

    def __init__(self, wrong_decisions: WrongDecisionCounter, on_comparison: Callable[[Any, Any], None]) -> None:
        super().__init__()
        self.wrong_decisions, self.on_comparison = wrong_decisions, on_comparison
        self.on_operands: Callable[[Any, Any], None] = lambda *_: None
        self.sizes: set[int] = set()
        self.counts = Counter[tuple[SourceLine, str]]()

    def start(self, scores: Tensor, phase_rows: int) -> None:
        """Start to trace the calls on some scores of an evaluation.

        ``phase_rows`` is the number of scores since the loop changed the split, and 0 for scores of several columns.
        """
        self.sizes = {size for size in (scores.numel(), phase_rows) if size >= _MIN_ROWS} if phase_rows else set()
        if not torch.is_grad_enabled():
            self.open([scores])

    def discard(self) -> None:
        """Forget the indices."""
        self.counts.clear()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "").strip("_") if self.addresses and len(args) > 1 else ""
        if name in _COMPARING_CALLS:
            self.attempt(self.on_comparison, *args[:2])
        is_judging = name in _COMPARING_CALLS or name.endswith(_LOSS_ENDINGS)
        if is_judging and calling_line(sys._getframe(1)) is not None:  # no comparison of this debugger
            self.attempt(self.on_operands, *args[:2])
        result = func(*args, **(kwargs or {}))
        if self.addresses and args:
            self.attempt(self.record_result, func, args, result, sys._getframe(1))
        return result

    def record_result(self, function: Any, args: tuple[Any, ...], result: Any, frame: FrameType) -> None:
        """Record a call that has returned to a frame."""
        self.wrong_decisions.record(function, args, result, lambda: calling_line(frame))
        if getattr(function, "__name__", "") in _INDEXING_CALLS:
            self.inspect(function, args[0], result, frame)

    def inspect(self, function: Any, scores: Any, result: Any, frame: FrameType) -> None:
        """Count a call whose indices are all zero, one for each score."""
        if not is_plain_tensor(scores) or not scores.is_floating_point() or scores.numel() not in self.sizes:
            return
        indices = [value for value in tree_tensors(result) if value.dtype is torch.int64]
        if not indices or indices[0].numel() != scores.numel() or bool(indices[0].any()):
            return
        if line := calling_line(frame):
            self.counts[line, function.__name__] += 1
