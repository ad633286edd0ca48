"""What a pass keeps of its batches until there is a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor

from nbdebug.predictions.table import Table

Adapt = Callable[[Any, Any], tuple[Any, Any]]


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
        return len(target)


class Whole:
    """Outputs small enough to be kept until the pass ends, on their device so that nothing waits for it."""

    def __init__(self, make: Callable[[Tensor, Any], Table]) -> None:
        self.make = make
        self.outputs, self.targets = list[Tensor](), list[Any]()

    def add(self, output: Tensor, target: Any) -> None:
        """Keeps a batch."""
        self.outputs.append(output.detach())
        self.targets.append(target.detach() if isinstance(target, Tensor) else target)

    def table(self) -> Table:
        """The table of all batches; targets that are texts are a list."""
        tensors = isinstance(self.targets[0], Tensor)
        return self.make(torch.cat(self.outputs), torch.cat(self.targets) if tensors else [*chain(*self.targets)])
