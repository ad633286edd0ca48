"""A sigmoid or a softmax that is written out with exp."""

from __future__ import annotations

from nbdebug.graph.node import Node
from nbdebug.graph.pattern import HARMLESS, Pattern

SCALED = frozenset({*HARMLESS, "Sub", "Neg", "Div", "Mul"})
EXP = Pattern(frozenset({"Exp"}), frozenset(), HARMLESS)
ADDED = Pattern(frozenset({"Add"}), frozenset(), HARMLESS)
SUMMED = Pattern(frozenset({"Sum"}), frozenset(), HARMLESS)
INVERSE = frozenset({"Reciprocal", "Pow"})


def written_out(node: Node, output: Node | None) -> str | None:
    """Which of the two an operation ends, as torch names them; None for neither.

    A softmax counts only where its exponents are the ``output`` itself, scaled or shifted: others may be bounded, as
    the similarities of contrastive losses are.
    """
    if node.name in INVERSE and any(any(EXP.behind(one.inputs)) for one in ADDED.behind(node.inputs)):
        return "Sigmoid"
    if node.name != "Div" or len(node.inputs) != 2 or output is None:
        return None
    above = list(EXP.behind(node.inputs[:1]))
    under = [exp for one in SUMMED.behind(node.inputs[1:]) for exp in EXP.behind(one.inputs)]
    if under and not above and any(any(EXP.behind(one.inputs)) for one in ADDED.behind(node.inputs[1:])):
        return "Sigmoid"
    source = Pattern(frozenset({output.name}), frozenset(), SCALED)
    return "Softmax" if above and under and output in source.behind(above[0].inputs) else None
