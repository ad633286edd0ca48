"""The autograd graph behind a tensor, walked from the exception of a backward pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from torch import Tensor

_MAX_NODES = 20_000


def walk_graph(tensor: Tensor) -> Iterator[Any]:
    """Yield the nodes behind a tensor, the nearest first."""
    pending, visited = deque([tensor.grad_fn]), set[int]()
    nodes = []  # held, so that their identifiers stay unique
    while pending and len(visited) < _MAX_NODES:
        node = pending.popleft()
        if node is None or id(node) in visited:
            continue
        visited.add(id(node))
        nodes.append(node)
        yield node
        pending += [parent for parent, _ in node.next_functions]


def changed_nodes(tensor: Tensor) -> list[Any]:
    """Return the nodes whose saved tensors have been changed in place since."""
    return [node for node in walk_graph(tensor) if _has_changed(node)]


def _has_changed(node: Any) -> bool:
    for name in dir(node):
        if name.startswith("_saved_"):
            try:
                getattr(node, name)
            except RuntimeError as error:
                if "modified by an inplace operation" in str(error):
                    return True
    return False


def consumers(tensor: Tensor, producer: Any) -> list[str]:
    """Return the names of the nodes that take the output of a node."""
    return [
        type(node).__name__
        for node in walk_graph(tensor)
        if any(parent is producer for parent, _ in node.next_functions)
    ]
