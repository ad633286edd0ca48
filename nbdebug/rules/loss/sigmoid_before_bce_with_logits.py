"""L202: a sigmoid output goes into a with-logits loss."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.graph import HARMLESS, Graph, Node, Pattern
from nbdebug.graph.rewrite import drop
from nbdebug.registry import rule
from nbdebug.rules.loss.softmax_before_cross_entropy import CONSEQUENCES
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

WITH_LOGITS = Pattern(frozenset({"Sigmoid"}), frozenset({"BinaryCrossEntropyWithLogits"}))
TWICE = Pattern(frozenset({"Sigmoid"}), frozenset({"Sigmoid"}))
LOSSES = frozenset({"BinaryCrossEntropy", "Log", "Log1P"})


@rule("L202", "error")
def sigmoid_before_bce_with_logits(graph: Graph) -> Iterator[Finding]:
    """A sigmoid output goes into a loss that applies its own sigmoid.

    ## What it does
    Finds a sigmoid whose output reaches a binary cross-entropy with logits, or a second sigmoid in front of a binary
    cross-entropy, through nothing but views, casts, copies, indexing and dropout.

    ## Why it matters
    The second sigmoid sees numbers between 0 and 1 and gives probabilities between 0.50 and 0.73: no sample can be
    called negative, and the loss stays above 0.693 for negatives and 0.313 for positives.

    ## How it is measured
    On the autograd graph of the first batch, so in any coding style.

    ## How to fix
    Return the logits and keep the with-logits loss, which is the stable form.

    ## When to ignore
    Never seen.

    ## References
    Documentation of torch.nn.BCEWithLogitsLoss: it combines a sigmoid layer and BCELoss in one class.
    """
    twice = ((inner, outer) for inner, outer in TWICE.matches(graph) if feeds_loss(outer))
    for producer, _ in [*WITH_LOGITS.matches(graph), *twice]:
        yield Finding(
            message=(
                "A sigmoid output goes into a loss that applies its own sigmoid: no probability can fall below 0.50, "
                f"and the loss of a negative sample stays above {math.log(2):.3f}."
            ),
            where=producer.where,
            cause="The sigmoid is applied twice: by the model and by the loss.",
            fix=drop(producer, {"sigmoid", "Sigmoid"}, "return the logits, without sigmoid"),
            evidence={"floor of a negative": math.log(2), "floor of a positive": math.log1p(math.exp(-1))},
            explains=CONSEQUENCES,
        )


def feeds_loss(node: Node) -> bool:
    """Whether the values of a node reach a binary cross-entropy as they are."""
    todo = list(node.users)
    while todo:
        user = todo.pop()
        if user.name in LOSSES:
            return True
        if user.name in HARMLESS:
            todo += user.users
    return False


def bad() -> Setup:
    """A sigmoid at the end of a model that is trained with logits."""
    x, y = points(2)
    return program(network(1, nn.Sigmoid()), x, y.float().unsqueeze(1), nn.BCEWithLogitsLoss())


def good() -> Setup:
    """The same with the loss that takes probabilities."""
    x, y = points(2)
    return program(network(1, nn.Sigmoid()), x, y.to(torch.float32).unsqueeze(1), nn.BCELoss())
