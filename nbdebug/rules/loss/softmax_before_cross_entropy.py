"""L201: probabilities go into a loss that applies softmax itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from torch import nn

from nbdebug.autograd import Graph
from nbdebug.autograd.patterns import suggest_removal
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.loss_graph import NormalizedTwice, find_normalized_twice
from nbdebug.measurements.output_range import OutputRange
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind
from nbdebug.source.location import get_location

_CALLS = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}
_CONSUMERS = {"LogSoftmax": "cross-entropy", "Logsumexp": "logsumexp, as in Categorical(logits=...)"}
_CALL_NAMES = {"softmax", "log_softmax", "sigmoid", "Softmax"}
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
    "E702",
    "E703",
    "E706",
    "L218",
    "O502",
    "T614",
)


@rule("L201", "error")
def softmax_before_cross_entropy(
    graph: Graph | NotChecked,
    loop: LoopSummary | NotChecked,
    output_range: OutputRange | NotChecked,
    loss_kind: LossKind | NotChecked,
) -> Iterator[Finding]:
    """Probabilities go into a loss that applies softmax itself.

    ## What it does
    Finds a softmax, log-softmax or sigmoid whose output reaches the log-softmax of a cross-entropy, the sigmoid of a
    with-logits loss or the logsumexp of a distribution of logits through only views, casts, copies, indexing, dropout
    and the addition of constants.

    ## Why it matters
    Cross-entropy expects logits. Values between 0 and 1 differ by at most 1, so its softmax can give no class more than
    e / (e + C - 1), 23% for ten classes: the loss stays above ln(e + C - 1) - 1 however good the predictions are, and
    the gradient is a fraction of what it should be. Training runs slowly and ends at a poor loss. A double log-softmax
    is the only harmless form: the second one changes nothing.

    ## How it is measured
    On the autograd graph of the first batch, and on that of the first backward passes of a watched loop, so the coding
    style does not matter. A softmax of any other form is found by its effect: for random values of the last layer, all
    outputs are positive and sum to one over the classes.

    ## How to fix
    Return the logits. Apply softmax only where you read probabilities.

    ## When to ignore
    When bounded logits are intended, as a way to limit confidence.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: the input is expected to hold unnormalized logits.
    """
    pairs = [] if isinstance(graph, NotChecked) else find_normalized_twice(graph)
    for producer, names in pairs:
        fix = suggest_removal(producer, _CALL_NAMES, f"return the logits, without {_CALLS[names.producer]}")
        yield replace(_finding(names), where=producer.where, fix=fix)
    if not pairs and loss_kind == "cross-entropy" and _normalizes(graph) and _is_distribution(output_range):
        yield replace(_finding(NormalizedTwice("Softmax", "LogSoftmax", None)), where=output_range.where)
    if isinstance(loop, LoopSummary):
        if loop.normalized_twice and not pairs:
            # Without a line, the report adds the one that calls the loss.
            yield replace(_finding(loop.normalized_twice), where=get_location(loop.normalized_twice.line))
    elif isinstance(graph, NotChecked):
        raise graph


def _normalizes(graph: Graph | NotChecked) -> bool:
    """Return False if the loss is a negative log likelihood without a softmax of its own."""
    names = set() if isinstance(graph, NotChecked) else {node.name for node in graph.nodes}
    return "NllLoss" not in names or "LogSoftmax" in names


def _is_distribution(output_range: OutputRange | NotChecked) -> TypeGuard[OutputRange]:
    """Return whether the outputs are positive and sum to one over the classes, whatever the last layer computes."""
    return not isinstance(output_range, NotChecked) and 1 in output_range.sums_to_one


def _finding(names: NormalizedTwice) -> Finding:
    producer, consumer, call = names.producer, names.consumer, _CALLS[names.producer]
    reader, fix = "loss", f"loss = loss_fn(model(x), target)   # without {call}"
    if consumer == "Logsumexp":
        reader, fix = "distribution", "Categorical(probs=...)   # or logits=..., of the values before the softmax"
    return Finding(
        message=_double_softmax_message(call, consumer, names.classes),
        cause=f"{call} is applied to the output, and the {reader} applies its own.",
        fix=fix,
        setup_fix="loss on logits",
        evidence={"producer": producer, "consumer": consumer, "floor": _lowest_cross_entropy(names.classes)},
        explains=CONSEQUENCES,
        severity="warning" if producer == consumer == "LogSoftmax" else "error",
    )


def _lowest_cross_entropy(classes: int | None) -> float | None:
    """The smallest cross-entropy, in nats, for inputs between 0 and 1: ln(e + C - 1) - 1."""
    return math.log(math.e + classes - 1) - 1 if classes and classes > 1 else None


def _double_softmax_message(call: str, consumer: str, classes: int | None) -> str:
    if call == "log_softmax" and consumer == "LogSoftmax":
        return "log_softmax is applied twice: the second one, in the loss, changes nothing."
    target = _CONSUMERS.get(consumer, "a with-logits loss")
    lowest = _lowest_cross_entropy(classes)
    cost = f": with {classes} classes the loss cannot fall below {lowest:.3f}" if lowest else ""
    return f"The output of {call} goes into {target}, which expects logits{cost}."


def bad() -> Setup:
    """A softmax at the end of a classifier."""
    return classifier(nn.Softmax(dim=1))


def good() -> Setup:
    """The same classifier, which returns its logits."""
    return classifier()
