"""Decisions of a loop along an axis of one value, such as an ``argmax`` over the only column of an output."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.write_trace import CallTrace, calling_line, is_plain_tensor
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

MIN_DECISIONS = 2
_MAX_TRACES, _MIN_ROWS = 64, 8
_INDEXING_CALLS = {"argmax", "argmin", "max", "min", "topk", "sort", "argsort"}


class AxisDecisionTrace(CallTrace):
    """Counts, by line and call, the indices that torch returns along an axis of one value, which are all zero.

    An index along such an axis is recognized by its values: there are as many as there are scores, and all are zero.
    """

    max_uses = _MAX_TRACES

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[int] = set()
        self.counts = Counter[tuple[SourceLine, str]]()

    def start(self, scores: Tensor, phase_rows: int) -> None:
        """Start to observe what an evaluation makes of some scores, or of all since the loop changed the split."""
        self.sizes = {size for size in (scores.numel(), phase_rows) if size >= _MIN_ROWS}
        if self.sizes and not torch.is_grad_enabled():
            self.open([scores])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.addresses and args and getattr(func, "__name__", "") in _INDEXING_CALLS:
            self.inspect(func, args[0], result)
        return result

    def inspect(self, function: Any, scores: Any, result: Any) -> None:
        """Count a call whose indices are all zero, one for each score."""
        if not is_plain_tensor(scores) or not scores.is_floating_point() or scores.numel() not in self.sizes:
            return
        indices = [value for value in tree_tensors(result) if value.dtype is torch.int64]
        if not indices or indices[0].numel() != scores.numel() or bool(indices[0].any()):
            return
        if line := calling_line(sys._getframe(2)):
            self.counts[line, function.__name__] += 1
