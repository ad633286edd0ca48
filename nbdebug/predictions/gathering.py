"""What a pass keeps of its batches until there is a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor

from nbdebug.predictions.table import Table

Adapt = Callable[[Any, Any], tuple[Any, Any]]
APART = 16  # batches that are kept as they came


class Kept(Protocol):
    """What takes in batches and gives a table."""

    def add(self, output: Any, target: Any) -> None:
        """Takes in a batch."""

    def table(self) -> Table:
        """The table of all batches."""


def same(output: Any, target: Any) -> tuple[Any, Any]:
    """Output and target as they are."""
    return output, target


@dataclass
class Gathering:
    """One of the ways to keep batches, after ``adapt`` has brought output and target into the shape that it takes."""

    kept: Kept
    adapt: Adapt = same

    def add(self, output: Any, target: Any) -> int:
        """Takes in a batch, and tells how many rows it has."""
        output, target = self.adapt(output, target)
        self.kept.add(output, target)
        return target.shape[0] if isinstance(target, Tensor) else len(target)


class Whole:
    """Outputs small enough to be kept until the pass ends, on their device so that nothing waits for it.

    Some batches at a time are joined. Many small tensors that stay would break up the memory that batches come and go
    in, so that each one lies in fresh memory, and an output that is part of something larger would keep all of that;
    but a call into torch for each batch, right after a model has run, takes 10 µs and more.
    """

    def __init__(self, make: Callable[[Tensor, Any], Table]) -> None:
        self.make = make
        self.apart, self.joined = list[tuple[Any, Any]](), list[tuple[Any, Any]]()

    def add(self, output: Tensor, target: Any) -> None:
        """Keeps a batch."""
        self.apart.append((output, target))
        if len(self.apart) == APART:
            self.join()

    def join(self) -> None:
        """Puts the batches that are apart below each other."""
        if self.apart:
            outputs, targets = zip(*self.apart, strict=True)
            self.joined.append((joined(outputs), joined(targets)))
            self.apart.clear()

    def table(self) -> Table:
        """The table of all batches."""
        self.join()
        outputs, targets = zip(*self.joined, strict=True)
        return self.make(joined(outputs), joined(targets))


def joined(parts: Sequence[Any]) -> Any:
    """Tensors below each other, or lists of texts as one; raises RuntimeError for tensors that do not fit."""
    tensors = isinstance(parts[0], Tensor)
    return torch.cat([one.detach() for one in parts]) if tensors else [*chain(*parts)]
