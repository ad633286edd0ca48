"""Where a backward pass ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Ends:
    """Whether a pass ends in the model, and how many others of its ends are made on the way (``fresh``).

    ``copies`` are parameters of the same shapes as the model's that are not its own.
    """

    reached: bool = False
    fresh: int = 0
    copies: int = 0

    @classmethod
    def of(cls, roots: Sequence[Tensor], own: Mapping[int, tuple[int, ...]]) -> Ends:
        """The ends of a pass from some roots; ``own`` are the shapes of the model's parameters by identity."""
        leaves = [leaf for root in roots for leaf in (ends(root.grad_fn) if root.grad_fn else [root])]
        shapes = set(own.values())
        others = [leaf for leaf in leaves if isinstance(leaf, nn.Parameter) and tuple(leaf.shape) in shapes]
        return cls(any(id(leaf) in own for leaf in leaves), len(leaves) - len(others), len(others))


def ends(function: Any) -> list[Tensor]:
    """The leaf tensors that a graph would give gradients to. Nothing is kept of the graph, which must be free to go."""
    known, todo, found = {function}, [function], []
    while todo:
        node = todo.pop()
        if (variable := getattr(node, "variable", None)) is not None and not node.next_functions:
            found.append(variable)
        after = {one for one, _ in node.next_functions if one is not None} - known
        known |= after
        todo += after
    return found
