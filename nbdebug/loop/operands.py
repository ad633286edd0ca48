"""What one of torch's own losses is given in a running loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from nbdebug.setup.losses import NODES, Kind

MOST_NODES = 64


@dataclass(frozen=True)
class Operands:
    """The kind of a loss, whether one operand was ``stretched`` over the other, and its target.

    ``real`` says whether the target holds floats, ``unit`` whether all of it lies in [0, 1].
    """

    kind: Kind
    stretched: bool
    real: bool
    unit: bool


def operands(roots: Sequence[Tensor]) -> Operands | None:
    """The operands of the loss nearest to some roots, read off the graph before it is freed; None where there is none.

    They count as stretched where those of any loss among the nearest nodes are. Torch expands operands of two shapes
    before it compares them, so that one has a stride of zero.
    """
    todo: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    found: list[Operands] = []
    for _ in range(MOST_NODES):
        if not todo:
            break
        node = todo.pop(0)
        kind = NODES.get(node.name().split("Backward")[0])
        if kind is not None and (one := read(node, kind)):
            found.append(one)
        todo += [after for after, _ in node.next_functions if after is not None]
    return replace(found[0], stretched=any(one.stretched for one in found)) if found else None


def read(node: Any, kind: Kind) -> Operands | None:
    """What a node of the graph has kept of its operands; None where torch does not give it."""
    try:
        given, target = node._saved_self, node._saved_target
    except (AttributeError, RuntimeError):
        return None
    pair = [one for one in (given, target) if isinstance(one, Tensor)]
    if len(pair) < 2 or not target.numel():
        return None
    unit = bool((target >= 0).all() and (target <= 1).all())
    return Operands(kind, any(map(is_stretched, pair)), target.is_floating_point(), unit)


def is_stretched(tensor: Tensor) -> bool:
    """Whether a tensor was expanded along any axis."""
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
