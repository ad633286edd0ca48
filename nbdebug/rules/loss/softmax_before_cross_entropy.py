"""L201: probabilities go into a loss that makes its own."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.graph import Graph, Node, Pattern
from nbdebug.graph.rewrite import drop
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

TWICE = Pattern(frozenset({"Softmax", "LogSoftmax", "Sigmoid"}), frozenset({"LogSoftmax"}))
WITH_LOGITS = Pattern(frozenset({"Softmax", "LogSoftmax"}), frozenset({"BinaryCrossEntropyWithLogits"}))
CALLS = {"softmax", "log_softmax", "sigmoid", "Softmax"}
CONSEQUENCES = (
    "L208",
    "L209",
    "L210",
    "G402",
    "G403",
    "T601",
    "T606",
    "T607",
    "T608",
    "T610",
    "E703",
    "L218",
    "O502",
    "T614",
)


@rule("L201", "error")
def softmax_before_cross_entropy(graph: Graph) -> Iterator[Finding]:
    """Probabilities go into a loss that applies softmax itself.

    ## What it does
    Finds a softmax, log-softmax or sigmoid whose output reaches the log-softmax of a cross-entropy (or the sigmoid of
    a with-logits loss) through nothing but views, casts, copies, indexing and dropout.

    ## Why it matters
    Cross-entropy takes logits. Numbers between 0 and 1 differ by at most 1, so its softmax can give no class more than
    e / (e + C - 1), 23 % of ten classes: the loss stays above ln(e + C - 1) - 1 however right the predictions are, and
    the gradient is a fraction of what it should be. Training runs, slowly, and ends badly. A log-softmax twice is the
    one harmless form: the second changes nothing.

    ## How it is measured
    On the autograd graph of the first batch, so in any coding style.

    ## How to fix
    Return the logits. Apply softmax only where you read probabilities.

    ## When to ignore
    When bounded logits are meant, as a way to limit confidence.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: the input is expected to hold unnormalized logits.
    """
    for producer, consumer in [*TWICE.matches(graph), *WITH_LOGITS.matches(graph)]:
        call = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}[producer.name]
        classes = width(consumer)
        yield Finding(
            message=message(call, consumer, classes),
            where=producer.where,
            cause=f"{call} is applied to the output, and the loss applies its own.",
            fix=drop(producer, CALLS, f"return the logits, without {call}"),
            evidence={"producer": producer.name, "consumer": consumer.name, "floor": floor(classes)},
            explains=CONSEQUENCES,
            severity="warning" if (producer.name, consumer.name) == ("LogSoftmax", "LogSoftmax") else "error",
        )


def width(consumer: Node) -> int | None:
    """The number of classes that a log-softmax runs over, where torch kept it."""
    result, axis = consumer.saved("result"), consumer.saved("dim")
    if not isinstance(result, Tensor) or not isinstance(axis, int):
        return None
    return result.shape[axis]


def floor(classes: int | None) -> float | None:
    """The smallest cross-entropy, in nats, that inputs between 0 and 1 allow: ln(e + C - 1) - 1."""
    return math.log(math.e + classes - 1) - 1 if classes and classes > 1 else None


def message(call: str, consumer: Node, classes: int | None) -> str:
    """What is fed to what, and what it costs."""
    if call == "log_softmax" and consumer.name == "LogSoftmax":
        return "The output is log-softmaxed twice: the second, in the loss, changes nothing."
    target = "cross-entropy" if consumer.name == "LogSoftmax" else "a with-logits loss"
    lowest = floor(classes)
    cost = f": with {classes} classes the loss cannot fall below {lowest:.3f}, however good the model" if lowest else ""
    return f"The output of {call} goes into {target}, which takes logits{cost}."


def bad() -> Setup:
    """A softmax at the end of a classifier."""
    return classifier(nn.Softmax(dim=1))


def good() -> Setup:
    """The same classifier, which returns its logits."""
    return classifier()
