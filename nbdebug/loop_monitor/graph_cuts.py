"""Where the torch calls of a loop cut the graph between the model and its loss, and create the leaves it ends in."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from nbdebug.autograd import DetachPoint
from nbdebug.autograd.tracing import DetachRecorder, ModuleStack
from nbdebug.loop_monitor.write_trace import LoopMode, calling_line, writes_to_first_argument
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors


class CutTrace(LoopMode):
    """Follows the values that are computed from a model through the torch calls of one step, once.

    A call cuts the graph if it receives such a value with a gradient and returns none. Each value carries the cuts that
    it has passed.
    """

    def __init__(self, parameter_ids: set[int]) -> None:
        super().__init__()
        self.parameter_ids = parameter_ids
        self.was_used = self.has_failed = False
        self.clear()

    def clear(self) -> None:
        """Forget everything that refers to the step."""
        self.recorder = DetachRecorder(ModuleStack())
        # The numbers of detach points by tensor; weak, so that no tensor stays in memory.
        self.cuts: MutableMapping[Tensor, frozenset[int]] = WeakTensorKeyDictionary()

    def fail(self) -> None:
        """Record nothing more: the rest of a step whose beginning is lost gives other cuts and leaves."""
        self.has_failed = True
        self.clear()

    def open(self) -> None:
        """Start to record, unless that was done before."""
        self.was_used = self.was_used or self.enter()

    def close(self) -> None:
        """Stop to record."""
        self.clear()
        self.leave()

    def leaf_line(self, leaves: Sequence[Tensor]) -> SourceLine | None:
        """Return the line that created the first of some leaves which is known."""
        lines = (self.recorder.created_leaves.get(id(leaf), (leaf, None))[1] for leaf in leaves)
        return next(filter(None, lines), None)

    def find_cut(self, roots: Sequence[Tensor]) -> DetachPoint | None:
        """Return the call that cuts the graph between the model and some roots; None unless it is the only one.

        Flags and indices are no values that need a gradient, unless nothing else is cut. Values that were read into
        NumPy may return by a way that no torch call shows, so a call that reads several values out of torch may be the
        cut if no real value passed one.
        """
        points = self.recorder.detach_points
        passed = [points[number] for root in roots for number in self.cuts.get(root, ())]
        real = [point for point in passed if any(t.is_floating_point() for t in tree_tensors(point.output))]
        read = [point for point in points if point.python_conversion and _has_many_values(point)]
        candidates = {(point.line, point.call): point for point in real or [*passed, *read]}
        lines = {line for line, _ in candidates}
        if len(lines) != 1:
            return None
        return replace(next(iter(candidates.values())), detached=(), output=None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame, kwargs = sys._getframe(1), kwargs or {}
        if self.has_failed:
            return func(*args, **kwargs)
        inputs, before = list[Tensor](), dict[int, Any]()
        try:
            inputs = tree_tensors((args, kwargs))
            before = self.recorder.on_call(func, args, inputs, frame)
        except Exception:  # must not reach the user's loop
            self.fail()
        result = func(*args, **kwargs)
        try:
            if not self.has_failed:
                self.record(func, inputs, before, result, frame)
        except Exception:
            self.fail()
        return result

    def record(
        self, func: Any, inputs: list[Tensor], before: dict[int, Any], result: Any, frame: FrameType | None
    ) -> None:
        """Record a call that has returned, and let its results carry the cuts of its inputs."""
        points = self.recorder.detach_points
        known = len(points)
        self.recorder.on_result(func, inputs, before, result, frame)
        located = (point if point.line else replace(point, line=calling_line(frame)) for point in points[known:])
        points[known:] = (point for point in located if point.line)  # the others are calls of the debugger
        sources = [tensor for tensor in inputs if id(tensor) in self.parameter_ids or tensor in self.cuts]
        if not any(id(tensor) in before for tensor in sources):
            del points[known:]  # what it detaches does not come from the model
        passed = frozenset(number for tensor in sources for number in self.cuts.get(tensor, ()))
        passed |= frozenset(range(known, len(points)))
        if sources:
            written = inputs[:1] if writes_to_first_argument(func) else []
            for tensor in [*tree_tensors(result), *written]:
                self.cuts[tensor] = passed | self.cuts.get(tensor, frozenset())


def _has_many_values(point: DetachPoint) -> bool:
    if isinstance(point.output, Tensor):
        return point.output.numel() > 1
    return not isinstance(point.output, (int, float, complex))
