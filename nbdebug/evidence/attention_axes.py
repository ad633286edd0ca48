"""Softmaxes over scores of attention that share out along another axis than the one that is then summed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Graph, Node
from nbdebug.graph.pattern import is_dropout

PRODUCTS = frozenset({"Bmm", "Mm"})
VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias", "Expand", "Clone", "Alias", "ToCopy", "NativeDropout"})
SCALINGS = frozenset({"Div", "Mul", "Add", "Sub", "MaskedFill", "Where", "CopySlices", *VIEWS})
LEAVES = frozenset({"AccumulateGrad", "T", "Transpose", "Permute"})


@dataclass(frozen=True)
class Crossed:
    """A softmax over one ``axis`` of scores of a ``shape``, whose result is summed over the axis ``summed``."""

    node: Node
    shape: tuple[int, ...]
    axis: int
    summed: int


@measurement
def crossed_axes(graph: Graph) -> list[Crossed]:
    """The softmaxes of products of activations that are handed to a product over another axis."""
    return [one for node in graph.named("Softmax") if scores_of_attention(node) for one in crossed(node)]


def crossed(node: Node) -> Iterator[Crossed]:
    """One softmax, where it runs along one of the two axes of a product and the product along the other."""
    result, axis = node.saved("result"), node.saved("dim")
    if not isinstance(result, Tensor) or result.dim() < 2:
        return
    shape = tuple(result.shape)
    axis %= len(shape)
    for place in operands(node):
        summed = len(shape) - 1 - place
        if axis != summed and axis >= len(shape) - 2 and shape[axis] > 1:
            yield Crossed(node, shape, axis, summed)
            return


def operands(node: Node) -> Iterator[int]:
    """As which operand, 0 or 1, products take what a node gives, where they take it as it is."""
    for user in node.users:
        if user.name in PRODUCTS:
            functions = [function for function, _ in user.function.next_functions]
            yield from (place for place, function in enumerate(functions) if function is node.function)
        elif user.name in VIEWS or is_dropout(user):
            yield from operands(user)


def scores_of_attention(node: Node) -> bool:
    """Whether what a softmax is given is a product of two activations, scaled and masked."""
    todo, seen = list(node.inputs), set[Node]()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.name in PRODUCTS:
            return len(one.inputs) == 2 and not any(map(is_weight, one.inputs))
        if one.name in SCALINGS:
            todo += one.inputs
    return False


def is_weight(node: Node) -> bool:
    """Whether an operand is a parameter, perhaps transposed."""
    while node.name in LEAVES - {"AccumulateGrad"} and len(node.inputs) == 1:
        node = node.inputs[0]
    return node.name == "AccumulateGrad"
