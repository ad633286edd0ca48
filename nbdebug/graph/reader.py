"""The graph behind a tensor: its nodes by reach, with their places."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.graph.node import Node
from nbdebug.graph.source import from_traceback

Span = tuple[int, str]
Hook = Callable[[Any, Any], None]


@dataclass(frozen=True)
class Graph:
    """All operations that a tensor was computed by, the nearest first."""

    root: Node | None
    nodes: tuple[Node, ...]

    def named(self, *names: str) -> Iterator[Node]:
        """The operations of some names."""
        return (node for node in self.nodes if node.name in names)

    @contextmanager
    def heard(self, hook: Callable[[Node], Hook]) -> Iterator[None]:
        """A block in which a backward pass tells each operation's own hook what it hands on and what it was handed."""
        handles = [node.function.register_hook(hook(node)) for node in self.nodes if node.variable is None]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @property
    def leaves(self) -> list[Tensor]:
        """The leaf tensors that would receive a gradient."""
        found = (node.variable for node in self.named("AccumulateGrad"))
        return [leaf for leaf in found if leaf is not None]


def read(root: Any, spans: list[Span]) -> Graph:
    """The graph that ends in the autograd function ``root`` (None for a tensor without one).

    ``spans`` are the sequence numbers at which the model entered another module, in order.
    """
    if root is None:
        return Graph(None, ())
    known: dict[Any, Node] = {}
    todo = [root]
    while todo:
        function = todo.pop()
        if function in known:
            continue
        known[function] = placed(function, spans)
        todo += [after for after, _ in function.next_functions if after is not None]
    for function, node in known.items():
        for after, _ in function.next_functions:
            if after is not None:
                node.inputs.append(known[after])
                known[after].users.append(node)
    return Graph(known[root], tuple(known.values()))


def placed(function: Any, spans: list[Span]) -> Node:
    """A node with the module whose span its sequence number falls in, and the user's line if anomaly mode kept it."""
    line = from_traceback(function.metadata.get("traceback_") or ())
    number = function._sequence_nr() if hasattr(function, "_sequence_nr") else None
    index = bisect_right(spans, number, key=lambda span: span[0]) - 1 if number is not None else -1
    module = spans[index][1] if index >= 0 else None
    return Node(function, module or None, line)
