"""Comparisons of a column with a row, which broadcast to a square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.setup.losses import score_tensor
from nbdebug.source.location import SourceLine, get_calling_line

_MAX_INSPECTED, _MAX_OUTPUTS, _MAX_VALUES = 64, 256, 1_000_000
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class ShapeMismatch:
    """A comparison of shapes (size, 1) and (size,), which broadcasts to (size, size).

    ``has_predicted_classes`` tells whether the column holds the classes with the largest score of the latest output.
    """

    size: int
    line: SourceLine | None
    has_predicted_classes: bool = False


class ComparisonMonitor:
    """Monitors each ``==`` and stores the first that broadcasts, unless it compares a tensor with itself.

    Comparing a tensor with itself or a copy tests which pairs of samples are equal, which is intended.
    """

    def __init__(self) -> None:
        self.first_mismatch: ShapeMismatch | None = None
        self.inspected = self.outputs = 0
        self.scores: Tensor | None = None

    @property
    def wants_output(self) -> bool:
        """True if the next output is to be kept until the next one."""
        return self.first_mismatch is None and self.outputs < _MAX_OUTPUTS

    def on_forward_end(self, output: Any) -> None:
        """Keep the scores of several classes, without their graph."""
        scores, self.scores = score_tensor(output) if self.wants_output else None, None
        self.outputs += 1
        if isinstance(scores, Tensor) and not scores.is_nested and scores.dim() == 2 and scores.shape[1] > 1:
            self.scores = scores.detach() if scores.numel() <= _MAX_VALUES else None

    def comparison_callback(self, wrap_callback: _CallbackWrapper) -> Callable[[tuple[Any, Any, Any]], None]:
        """Return the callback before each comparison, of any thread; broadcasting ones go through ``wrap_callback``."""
        inspect = wrap_callback(self.inspect)

        def on_comparison(call: tuple[Any, Any, Any]) -> None:
            left_operand, other_args, _ = call
            if other_args and (pair := self.broadcasting_pair(left_operand, other_args[0])):
                inspect(pair)

        return on_comparison

    def on_comparison(self, left: Any, right: Any) -> None:
        """Inspect two operands of a comparison if they broadcast."""
        if pair := self.broadcasting_pair(left, right):
            self.inspect(pair)

    def broadcasting_pair(self, left: Any, right: Any) -> tuple[Tensor, Tensor] | None:
        """Return the column and the row of a comparison of the two; None for any other."""
        if self.inspected >= _MAX_INSPECTED or not (type(left) is type(right) is Tensor):
            return None
        column, row = (left, right) if left.dim() == 2 else (right, left)
        is_pair = row.dim() == 1 and not column.is_nested and column.shape == (len(row), 1) and len(row) > 1
        return (column, row) if is_pair else None

    @torch.no_grad()
    def inspect(self, pair: tuple[Tensor, Tensor]) -> None:
        """Inspect a column that is about to be compared with a row."""
        column, row = pair
        self.inspected += 1
        if self.first_mismatch is None and not torch.eq(column[:, 0], row).all():
            line = get_calling_line(sys._getframe(1))
            self.first_mismatch = ShapeMismatch(len(row), line, self._holds_predicted_classes(column))
            self.scores = None

    def _holds_predicted_classes(self, column: Tensor) -> bool:
        if self.scores is None or len(self.scores) != len(column) or column.is_floating_point():
            return False
        return bool(torch.equal(self.scores.argmax(1), column[:, 0].to(self.scores.device)))
