"""Comparisons of a loop in which a column of predictions meets a row of targets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.graph.source import Line, caller

MOST = 64  # such comparisons whose values are looked at
Guard = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class Match:
    """Where a tensor of shape (size, 1) was compared with one of shape (size,), which gives size × size answers."""

    size: int
    line: Line | None


class Matching:
    """Hears of each ``==``; the first one of that kind is kept, but for those that are made of one tensor.

    A tensor that is compared with itself, or a copy of it, asks which pairs of samples are alike, which is meant.
    """

    def __init__(self) -> None:
        self.first: Match | None = None
        self.looks = 0

    def hears(self, guard: Guard) -> Callable[[tuple[Any, Any, Any]], None]:
        """What is called before each comparison, of any thread: only those of that kind go through ``guard``."""
        look = guard(self.look)

        def heard(given: tuple[Any, Any, Any]) -> None:
            one, others, _ = given
            if self.looks < MOST and others and type(one) is type(others[0]) is Tensor:
                column, row = (one, others[0]) if one.dim() == 2 else (others[0], one)
                if row.dim() == 1 and not column.is_nested and column.shape == (len(row), 1) and len(row) > 1:
                    look((column, row))

        return heard

    def look(self, pair: tuple[Tensor, Tensor]) -> None:
        """A column is about to be compared with a row."""
        column, row = pair
        self.looks += 1
        if self.first is None and not torch.eq(column[:, 0], row).all():
            self.first = Match(len(row), caller(sys._getframe(1)))
