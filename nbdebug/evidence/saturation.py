"""Hidden activations and attentions that sit at the ends of their range, where they have next to no slope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from nbdebug.evidence.attention_axes import scores_of_attention
from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Graph, Node

LAYERS = frozenset({"Addmm", "Mm", "Bmm", "Linear", "Convolution"})
SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "Sigmoid": lambda made: 4 * made * (1 - made),
    "Tanh": lambda made: 1 - made.square(),
}


@dataclass(frozen=True)
class Saturated:
    """One activation of the first batch: the share of its values, or rows, with next to no slope."""

    node: Node
    share: float


@measurement
def saturation(graph: Graph) -> list[Saturated]:
    """Each sigmoid and tanh before another layer, and each softmax over scores of attention, with its flat share."""
    found = []
    for node in graph.named("Sigmoid", "Tanh", "Softmax"):
        made = node.saved("result")
        if isinstance(made, Tensor) and made.numel() and (flat := flatness(node, made.detach().float())) is not None:
            found.append(Saturated(node, flat))
    return found


def flatness(node: Node, made: Tensor) -> float | None:
    """The share of what an activation gave that lies where its slope is under a hundredth of the largest one.

    None for an activation that is no hidden one, and for one whose rows have nothing to choose from.
    """
    if node.name in SLOPES:
        flat = SLOPES[node.name](made) < 0.01
        return float(flat.float().mean()) if any(map(is_layer, downstream(node))) else None
    axis = node.saved("dim")
    if not isinstance(axis, int) or not scores_of_attention(node):
        return None
    rows = made.movedim(axis, -1).flatten(0, -2)
    rows = rows[(rows > 0).sum(-1) > 1]
    slope = (1 - rows.square().sum(-1)) / (1 - 1 / rows.shape[-1])
    return float((slope < 0.01).float().mean()) if len(rows) else None


def is_layer(node: Node) -> bool:
    """Whether an operation multiplies by weights."""
    return node.name in LAYERS


def downstream(node: Node) -> Iterator[Node]:
    """The operations that use what a node gives, directly or not, each once."""
    seen, todo = {node}, list(node.users)
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            yield one
            todo += one.users
