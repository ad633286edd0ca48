"""Factors of matrix products: which of several matrices the forward pass applies to the inputs first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from nbdebug.autograd.graph import Graph, Node

_TRANSPOSITIONS = {"T", "Transpose", "Permute"}
_PASSING_NODES = {"View", "Reshape", "ReshapeAlias", "UnsafeView", "Unsqueeze", "Squeeze", "Expand", "Clone"}
_PASSING_NODES |= {"ToCopy", "Alias", "Mul", "Div", "NativeDropout", *_TRANSPOSITIONS}
_PASSING_SUMS = _PASSING_NODES | {"Add", "Sub", "Neg"}  # with the matrix that a product of two factors changes
# The positions of the left and the right matrix. A convolution is its weights times the patches of its input.
_OPERANDS = {"Mm": (0, 1), "Bmm": (0, 1), "Mv": (0, 1), "Addmm": (1, 2), "Baddbmm": (1, 2), "Convolution": (1, 0)}
_MAX_STEPS = 16


@dataclass(frozen=True)
class _FactorUse:
    """A matrix product that takes a value, as its left or right matrix, transposed or not."""

    product: Node
    is_left: bool
    is_transposed: bool


def first_factors(graph: Graph, factors: Sequence[Tensor]) -> list[int]:
    """Return the positions of the factors that the inputs meet first, one of each product of two of them.

    In ``x @ a.T @ b.T`` and in ``x @ (b @ a).T`` that is ``a``. If no two of the factors are in one product, it is the
    only one that no other factor comes before. Empty if that is not certain.
    """
    operands: dict[int, _FactorUse] = {}
    for leaf in graph.get_nodes_by_name("AccumulateGrad"):
        position = next((i for i, factor in enumerate(factors) if leaf.variable is factor), None)
        operand = _find_product(leaf, _PASSING_NODES)
        if position is not None and operand is not None:
            operands[position] = operand
    firsts = {*_first_of_chains(operands), *_first_of_joint_products(operands)}
    return sorted(firsts or (_earliest_factor(operands) if len(operands) == len(factors) else ()))


def _find_product(value: Node, passing: set[str]) -> _FactorUse | None:
    """Return the first matrix product that takes a value, through operations that keep its entries; None if none."""
    is_transposed = False
    for _ in range(_MAX_STEPS):
        user = next(iter(value.users), None)
        if user is None:
            return None
        if user.name in _OPERANDS:
            sources = [function for function, _ in user.function.next_functions]
            sides = [side for side in _OPERANDS[user.name] if sources[side] == value.function]
            return _FactorUse(user, sides[0] == _OPERANDS[user.name][0], is_transposed) if sides else None
        if user.name not in passing:
            return None
        is_transposed ^= user.name in _TRANSPOSITIONS
        value = user
    return None


def _first_of_chains(operands: Mapping[int, _FactorUse]) -> Iterator[int]:
    """Yield the factors whose product with the inputs is multiplied by another factor."""
    for first, operand in operands.items():
        following = _find_product(operand.product, _PASSING_NODES)
        others = (other for position, other in operands.items() if position != first)
        if following is not None and any(other.product is following.product for other in others):
            yield first


def _first_of_joint_products(operands: Mapping[int, _FactorUse]) -> Iterator[int]:
    """Yield, of two factors that are multiplied by each other, the one next to the inputs in the product with these."""
    for left, operand in operands.items():
        for right, other in operands.items():
            if other.product is operand.product and operand.is_left and not other.is_left:
                whole = _find_product(operand.product, _PASSING_SUMS)
                if whole is not None:
                    yield right if whole.is_left != whole.is_transposed else left


def _earliest_factor(operands: Mapping[int, _FactorUse]) -> list[int]:
    """Return the only factor whose product with the inputs depends on no other factor; none if there are several."""
    products = {operand.product for operand in operands.values()}
    firsts = [
        position
        for position, operand in operands.items()
        if all(node is operand.product or node not in products for node in operand.product.upstream())
    ]
    return firsts if len(firsts) == 1 else []
