"""The loss of a loop, read from its graph before a backward pass frees it: operands, and probabilities as logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from nbdebug.autograd import Graph, Node, Pattern
from nbdebug.setup.losses import NODE_KINDS, LossKind
from nbdebug.source.location import SourceLine, get_line_from_traceback

_MAX_NODES = 64
_NORMALIZED_TWICE = (
    Pattern(frozenset({"Softmax", "Sigmoid"}), frozenset({"LogSoftmax"}), through_shifts=True),
    Pattern(frozenset({"Softmax"}), frozenset({"Logsumexp"})),  # as in Categorical(logits=...)
    Pattern(frozenset({"LogSoftmax"}), frozenset({"LogSoftmax"})),
    Pattern(frozenset({"Softmax", "LogSoftmax"}), frozenset({"BinaryCrossEntropyWithLogits"})),
)


@dataclass(frozen=True)
class LossOperands:
    """Kind of a loss, whether one operand was ``broadcast`` to the shape of the other, and its target.

    ``is_float_target`` tells whether the target is floating point, ``is_unit_target`` whether it lies in [0, 1], and
    ``is_same`` whether both operands are one tensor.
    """

    kind: LossKind
    broadcast: bool
    is_float_target: bool
    is_unit_target: bool
    is_same: bool = False


def nearest_graph(roots: Sequence[Tensor]) -> Graph:
    """Return the operations nearest to some roots, breadth first, without modules and lines.

    Saved values can be read until a backward pass frees them.
    """
    nodes: dict[Any, Node] = {}
    pending: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    while pending and len(nodes) < _MAX_NODES:
        function = pending.pop(0)
        if function not in nodes:
            nodes[function] = Node(function)
            pending += [next_function for next_function, _ in function.next_functions if next_function is not None]
    for function, node in nodes.items():
        node.inputs += [nodes[next_function] for next_function, _ in function.next_functions if next_function in nodes]
    return Graph(next(iter(nodes.values()), None), tuple(nodes.values()))


def loss_operands(graph: Graph) -> LossOperands | None:
    """Return the operands of the loss nearest to the root of a graph; None if absent.

    They count as broadcast if those of any loss of the graph are. Torch expands operands of different shapes before it
    compares them, so that one has a stride of zero.
    """
    operands = (_saved_operands(node, NODE_KINDS[node.name]) for node in graph.nodes if node.name in NODE_KINDS)
    candidates = [candidate for candidate in operands if candidate is not None]
    return (
        replace(candidates[0], broadcast=any(candidate.broadcast for candidate in candidates)) if candidates else None
    )


def _saved_operands(node: Node, kind: LossKind) -> LossOperands | None:
    """Return the operands that a node of the graph has saved; None if torch does not expose them."""
    saved_input, target = node.get_saved("self"), node.get_saved("target")
    if not isinstance(saved_input, Tensor) or not isinstance(target, Tensor) or not target.numel():
        return None
    is_unit_target = bool((target >= 0).all() and (target <= 1).all())
    is_broadcast = _is_expanded(saved_input) or _is_expanded(target)
    is_same = saved_input.data_ptr() == target.data_ptr() and saved_input.shape == target.shape
    return LossOperands(kind, is_broadcast, target.is_floating_point(), is_unit_target, is_same)


def _is_expanded(tensor: Tensor) -> bool:
    """Check whether a tensor was expanded along any axis."""
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


@dataclass(frozen=True)
class NormalizedTwice:
    """A ``producer`` such as softmax whose output a loss normalizes again.

    ``classes`` is their number, if torch saved it and no constants are added to the probabilities on the way. ``line``
    is the user's line of the producer, if lines were recorded.
    """

    producer: str
    consumer: str
    classes: int | None
    line: SourceLine | None = None


def find_normalized_twice(graph: Graph) -> list[tuple[Node, NormalizedTwice]]:
    """Return each normalization whose output reaches that of a loss through operations that keep its values.

    The names can be stored; the node would keep the graph alive.
    """
    return [
        (producer, _describe_match(pattern, producer, consumer))
        for pattern in _NORMALIZED_TWICE
        for producer, consumer in pattern.find_matches(graph)
    ]


def _describe_match(pattern: Pattern, producer: Node, consumer: Node) -> NormalizedTwice:
    is_unshifted = producer in replace(pattern, through_shifts=False).find_producers(consumer)
    classes = _class_count(consumer) if is_unshifted else None
    return NormalizedTwice(producer.name, consumer.name, classes, _recorded_line(producer))


def _recorded_line(node: Node) -> SourceLine | None:
    return node.line or get_line_from_traceback(node.function.metadata.get("traceback_") or ())


def _class_count(consumer: Node) -> int | None:
    """Return the number of classes that a log-softmax runs over, if torch saved it."""
    result, axis = consumer.get_saved("result"), consumer.get_saved("dim")
    return result.shape[axis] if isinstance(result, Tensor) and isinstance(axis, int) else None
