"""The loss of a loop, read from its graph before a backward pass frees it: operands, and probabilities as logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from nbdebug.autograd.patterns import VALUE_PRESERVING_NODES
from nbdebug.setup.losses import NODE_KINDS, LossKind

_MAX_OPERAND_NODES = 64
_NORMALIZED_LOSSES = {
    "LogSoftmax": ("Softmax", "LogSoftmax", "Sigmoid"),
    "BinaryCrossEntropyWithLogits": ("Softmax", "LogSoftmax"),
}  # operations that apply softmax or sigmoid, with those whose output they should not receive


@dataclass(frozen=True)
class LossOperands:
    """Kind of a loss, whether one operand was ``broadcast`` to the shape of the other, and its target.

    ``is_float_target`` tells whether the target is floating point, ``is_unit_target`` whether it lies in [0, 1].
    """

    kind: LossKind
    broadcast: bool
    is_float_target: bool
    is_unit_target: bool


def loss_operands(roots: Sequence[Tensor]) -> LossOperands | None:
    """Return the operands of the loss nearest to some roots, read from the graph before it is freed; None if absent.

    They count as broadcast if those of any loss among the nearest nodes are. Torch expands operands of different shapes
    before it compares them, so that one has a stride of zero.
    """
    candidates: list[LossOperands] = []
    for node in _nearest_nodes(roots):
        kind = NODE_KINDS.get(_operation_name(node))
        if kind is not None and (candidate := _saved_operands(node, kind)):
            candidates.append(candidate)
    return (
        replace(candidates[0], broadcast=any(candidate.broadcast for candidate in candidates)) if candidates else None
    )


def _saved_operands(node: Any, kind: LossKind) -> LossOperands | None:
    """Return the operands that a node of the graph has saved; None if torch does not expose them."""
    try:
        saved_input, target = node._saved_self, node._saved_target
    except (AttributeError, RuntimeError):
        return None
    operands = [operand for operand in (saved_input, target) if isinstance(operand, Tensor)]
    if len(operands) < 2 or not target.numel():
        return None
    is_unit_target = bool((target >= 0).all() and (target <= 1).all())
    return LossOperands(kind, any(map(_is_expanded, operands)), target.is_floating_point(), is_unit_target)


def _is_expanded(tensor: Tensor) -> bool:
    """Check whether a tensor was expanded along any axis."""
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


@dataclass(frozen=True)
class NormalizedTwice:
    """A ``producer`` such as softmax whose output a loss normalizes again, and the classes, if torch saved them."""

    producer: str
    consumer: str
    classes: int | None


def find_normalized_twice(roots: Sequence[Tensor]) -> NormalizedTwice | None:
    """Return the normalization whose output reaches that of the loss through operations that keep its values."""
    for consumer in _nearest_nodes(roots):
        producers = _NORMALIZED_LOSSES.get(_operation_name(consumer), ())
        pending = _inputs(consumer) if producers else []
        while pending:
            node = pending.pop()
            if (name := _operation_name(node)) in producers:
                return NormalizedTwice(name, _operation_name(consumer), _class_count(consumer))
            if name in VALUE_PRESERVING_NODES:
                pending += _inputs(node)
    return None


def _class_count(log_softmax: Any) -> int | None:
    try:
        result, axis = log_softmax._saved_result, log_softmax._saved_dim
    except (AttributeError, RuntimeError):
        return None
    return int(result.shape[axis if axis < result.dim() else axis - 2**64])


def _nearest_nodes(roots: Sequence[Tensor]) -> Iterator[Any]:
    """Yield the nodes nearest to some roots, breadth first."""
    pending: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    for _ in range(_MAX_OPERAND_NODES):
        if not pending:
            return
        node = pending.pop(0)
        yield node
        pending += _inputs(node)


def _inputs(node: Any) -> list[Any]:
    return [next_node for next_node, _ in node.next_functions if next_node is not None]


def _operation_name(node: Any) -> str:
    return str(node.name().split("Backward")[0])
