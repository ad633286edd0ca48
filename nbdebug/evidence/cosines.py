"""Whether the scores are cosines times a scale that was set by hand, as in metric learning."""

from __future__ import annotations

from nbdebug.evidence.ledger import measurement
from nbdebug.graph import HARMLESS, Graph, Node, Pattern

PRODUCTS = frozenset({"Mm", "Bmm", "Addmm", "Linear"})
NORMS = frozenset({"LinalgVectorNorm", "Norm"})
DIVIDED = Pattern(frozenset({"Div"}), frozenset())
LENGTH = Pattern(NORMS, frozenset(), HARMLESS | {"ClampMin", "Clamp", "Add", "Sqrt"})


@measurement
def are_cosines(graph: Graph) -> bool:
    """Whether the last matrix product before the loss is one of two sets of vectors of length one."""
    todo, seen = [graph.root] if graph.root else [], set[Node]()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name not in PRODUCTS:
            todo += node.inputs
        elif len([one for one in node.inputs if is_unit(one)]) > 1:
            return True
    return False


def is_unit(node: Node) -> bool:
    """Whether vectors were divided by their own lengths."""
    return any(next(LENGTH.behind(one.inputs), None) is not None for one in DIVIDED.behind([node]))
