"""The autograd graph behind a tensor: nodes, lookup by name, backward hooks."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import ref

from torch import Tensor

from nbdebug.finding import Location
from nbdebug.source.location import SourceLine, get_line_from_traceback, get_location

_BACKWARD_SUFFIX = re.compile(r"Backward\d*$")
ModuleSpan = tuple[int, str]
_BackwardHook = Callable[[Any, Any], None]


@dataclass(eq=False)
class Node:
    """An operation with a gradient, with its inputs, its users, the module it ran in and the user's line."""

    function: Any
    module: str | None = None
    line: SourceLine | None = None
    inputs: list[Node] = field(default_factory=list)
    # Weak, since a cycle would keep the tensors of a pass until a garbage collection.
    _users: list[ref[Node]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def name(self) -> str:
        """The name of the operation in torch, such as ``Softmax``; ``AccumulateGrad`` for a leaf.

        Torch names every operation in place on a view ``CopySlices``. Here that is the name of copies into a tensor
        without a gradient, one after another; others are ``InPlace``, since they may be activations.
        """
        name = _BACKWARD_SUFFIX.sub("", self.function.name().rpartition("::")[2])
        return "InPlace" if name == "CopySlices" and not _fills_constant(self.function) else name

    @property
    def users(self) -> list[Node]:
        """The operations that take the output of this one."""
        return [user for reference in self._users if (user := reference()) is not None]

    def add_input(self, node: Node) -> None:
        """Add an operation whose output this one takes."""
        self.inputs.append(node)
        node._users.append(ref(self))

    @property
    def variable(self) -> Tensor | None:
        """The leaf tensor of an ``AccumulateGrad`` node."""
        leaf = getattr(self.function, "variable", None)
        return leaf if isinstance(leaf, Tensor) else None

    @property
    def where(self) -> Location:
        """The location of this operation in the model and in the user's source."""
        return get_location(self.line, self.module)

    def get_saved(self, name: str) -> Any:
        """Return the value saved for backward under ``name``; None if there is none or torch has freed it.

        Torch returns negative numbers, such as the axis -1, as unsigned integers.
        """
        try:
            value = getattr(self.function, f"_saved_{name}", None)
        except RuntimeError:
            return None
        return value - 2**64 if isinstance(value, int) and value >= 2**63 else value

    def upstream(self) -> Iterator[Node]:
        """Yield this node and every node it was computed from, each once."""
        visited, pending = {self}, [self]
        while pending:
            node = pending.pop()
            yield node
            unvisited = [input_node for input_node in node.inputs if input_node not in visited]
            visited.update(unvisited)
            pending += unvisited


def _fills_constant(copy_slices: Any) -> bool:
    """Check whether an operation in place on a view copies values into a tensor that had no gradient."""
    (base, _), *sources = copy_slices.next_functions
    return any(source for source, _ in sources) and (base is None or base.name().endswith("CopySlices"))


@dataclass(frozen=True)
class Graph:
    """All operations that a tensor was computed by, the nearest first."""

    root: Node | None
    nodes: tuple[Node, ...]

    def get_nodes_by_name(self, *names: str) -> Iterator[Node]:
        """Yield the operations with one of some names."""
        return (node for node in self.nodes if node.name in names)

    @contextmanager
    def backward_hooks(self, hook: Callable[[Node], _BackwardHook]) -> Iterator[None]:
        """Register the hook of each operation for the backward passes in a block.

        A hook receives the gradients that its operation passes on, and those that it received.
        """
        handles = [node.function.register_hook(hook(node)) for node in self.nodes if node.variable is None]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @property
    def leaves(self) -> list[Tensor]:
        """The leaf tensors that would receive a gradient."""
        variables = (node.variable for node in self.get_nodes_by_name("AccumulateGrad"))
        return [leaf for leaf in variables if leaf is not None]


def build_graph(root: Any, spans: list[ModuleSpan]) -> Graph:
    """Build the graph that ends in the autograd function ``root`` (None for a tensor without one).

    ``spans`` are the sequence numbers at which the model entered another module, in order.
    """
    if root is None:
        return Graph(None, ())
    nodes: dict[Any, Node] = {}
    pending = [root]
    while pending:
        function = pending.pop()
        if function in nodes:
            continue
        nodes[function] = _build_node(function, spans)
        pending += [next_function for next_function, _ in function.next_functions if next_function is not None]
    for function, node in nodes.items():
        for next_function, _ in function.next_functions:
            if next_function is not None:
                node.add_input(nodes[next_function])
    return Graph(nodes[root], tuple(nodes.values()))


def _build_node(function: Any, spans: list[ModuleSpan]) -> Node:
    """Build a node, with the module whose span contains its sequence number and the line from anomaly mode."""
    line = get_line_from_traceback(function.metadata.get("traceback_") or ())
    number = function._sequence_nr() if hasattr(function, "_sequence_nr") else None
    index = bisect_right(spans, number, key=lambda span: span[0]) - 1 if number is not None else -1
    module = spans[index][1] if index >= 0 else None
    return Node(function, module or None, line)
