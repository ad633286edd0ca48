"""L202: a sigmoid output goes into a loss that applies its own sigmoid."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.autograd import VALUE_PRESERVING_NODES, Graph, Node, Pattern
from nbdebug.autograd.patterns import suggest_removal
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.loss.softmax_before_cross_entropy import CONSEQUENCES
from nbdebug.setup import Setup

_WITH_LOGITS = Pattern(frozenset({"Sigmoid"}), frozenset({"BinaryCrossEntropyWithLogits"}))
_SIGMOID_PAIR = Pattern(frozenset({"Sigmoid"}), frozenset({"Sigmoid"}))
_LOSSES = frozenset({"BinaryCrossEntropy", "Log", "Log1P"})


@rule("L202", "error")
def sigmoid_before_bce_with_logits(graph: Graph) -> Iterator[Finding]:
    """A sigmoid output goes into a loss that applies its own sigmoid.

    ## What it does
    Finds a sigmoid whose output reaches a binary cross-entropy with logits, or a second sigmoid before a binary
    cross-entropy, through only views, casts, copies, indexing and dropout.

    ## Why it matters
    The second sigmoid receives values between 0 and 1 and returns probabilities between 0.50 and 0.73: no sample can be
    predicted negative, and the loss stays above 0.693 for negatives and 0.313 for positives.

    ## How it is measured
    On the autograd graph of the first batch, so the coding style does not matter.

    ## How to fix
    Return the logits and keep the with-logits loss, which is numerically stable.

    ## When to ignore
    No exception is known.

    ## References
    Documentation of torch.nn.BCEWithLogitsLoss: it combines a sigmoid layer and BCELoss in one class.
    """
    sigmoid_pairs = ((inner, outer) for inner, outer in _SIGMOID_PAIR.find_matches(graph) if _feeds_loss(outer))
    for producer, _ in [*_WITH_LOGITS.find_matches(graph), *sigmoid_pairs]:
        yield Finding(
            message=(
                "A sigmoid output goes into a loss that applies its own sigmoid: no probability can be below 0.50, "
                f"and the loss of a negative sample stays above {math.log(2):.3f}."
            ),
            where=producer.where,
            cause="The sigmoid is applied twice: at this place, and again inside the loss.",
            fix=suggest_removal(producer, {"sigmoid", "Sigmoid"}, "return the logits, without sigmoid"),
            setup_fix="loss on logits",
            evidence={
                "smallest probability": 0.5,
                "floor of a negative": math.log(2),
                "floor of a positive": math.log1p(math.exp(-1)),
            },
            explains=CONSEQUENCES,
        )


def _feeds_loss(node: Node) -> bool:
    pending = list(node.users)
    while pending:
        user = pending.pop()
        if user.name in _LOSSES:
            return True
        if user.name in VALUE_PRESERVING_NODES:
            pending += user.users
    return False


def bad() -> Setup:
    """A sigmoid at the end of a model whose loss expects logits."""
    x, y = points(2)
    return minimal_setup(network(1, nn.Sigmoid()), x, y.float().unsqueeze(1), nn.BCEWithLogitsLoss())


def good() -> Setup:
    """The same model with the loss that expects probabilities."""
    x, y = points(2)
    return minimal_setup(network(1, nn.Sigmoid()), x, y.to(torch.float32).unsqueeze(1), nn.BCELoss())
