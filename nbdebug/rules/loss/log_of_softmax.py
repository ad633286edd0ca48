"""L203: the logarithm of a softmax or sigmoid is computed in two steps."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.autograd import VALUE_PRESERVING_NODES, Graph, Node, Pattern
from nbdebug.autograd.patterns import find_handwritten_activation
from nbdebug.finding import Finding
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.rule_engine.expression_edits import line_of
from nbdebug.rule_engine.log_edits import take_stable_log
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.source.edits import describe_edits

_THROUGH = frozenset({*VALUE_PRESERVING_NODES, "Rsub", "Mul"})
_LOG_OF_PROBABILITY = Pattern(
    frozenset({"Softmax", "Sigmoid"}), frozenset({"Log", "Log2", "Log10"}), VALUE_PRESERVING_NODES | {"Rsub"}
)
_LOG_OF_WRITTEN_OUT = Pattern(frozenset({"Reciprocal", "Pow", "Div"}), _LOG_OF_PROBABILITY.consumer, _THROUGH)
_STABLE = {
    "Softmax": ("softmax", "log_softmax", "nn.CrossEntropyLoss"),
    "Sigmoid": ("sigmoid", "logsigmoid", "nn.BCEWithLogitsLoss"),
}


_WHOLE_LOSSES = {"Softmax": "loss_fn = nn.CrossEntropyLoss()", "Sigmoid": "loss_fn = nn.BCEWithLogitsLoss()"}


@rule("L203", "warning")
def log_of_softmax(first_pass: ForwardPass, graph: Graph) -> Iterator[Finding]:
    """The logarithm of a softmax or sigmoid is computed in two steps.

    ## What it does
    Finds a softmax or sigmoid, torch's own or written out with exp, whose result goes directly into a logarithm without
    anything that keeps it above zero.

    ## Why it matters
    The smallest positive float32 is 1.4e-45: as soon as one logit is about 104 below another, softmax returns exactly
    0, its logarithm is -inf, and the next gradient is NaN. One confident mistake is enough to lose the run.

    ## How it is measured
    On the autograd graph of the first batch. An entropy, p log p, is reported as a note, since it is not the training
    objective itself.

    ## How to fix
    Use log_softmax or logsigmoid, or a loss that takes logits: these compute the same value in one stable step.

    ## When to ignore
    When the logits are bounded.

    ## References
    Documentation of torch.nn.functional.log_softmax: doing the two operations separately is slower and unstable.
    """
    reported: set[Node] = set()
    for producer, consumer, kind in _logs_of_probabilities(first_pass, graph):
        if producer in reported:
            continue
        entropy = _is_entropy(producer, consumer)
        reported |= set() if entropy else {producer}
        name, stable_form, loss = _STABLE[kind]
        smallest_value, edits = _smallest_probability(producer), take_stable_log(line_of(consumer.where))
        yield Finding(
            message=f"The loss computes log({name}(x)) in two steps, which is -inf when {name} returns 0; the "
            f"smallest value here is {smallest_value:.2g}.",
            where=consumer.where,
            cause=f"{name} underflows to 0 before the logarithm is taken.",
            fix=describe_edits(edits)
            or f"Compute {stable_form} of the input of {name} in one step, or pass this input to {loss}.",
            edits=edits,
            evidence={"producer": kind, "smallest": smallest_value},
            explains=("G405", "G406", "T602", "T603", "T605"),
            severity="note" if entropy else None,
            setup_fix=_WHOLE_LOSSES[kind] if not entropy and _is_in_loss(first_pass, producer, kind) else "",
        )


def _is_in_loss(first_pass: ForwardPass, producer: Node, kind: str) -> bool:
    """Check whether the loss, not the model, applies a softmax to one logit per class, or a sigmoid to each logit."""
    output, target = score_tensor(first_pass.output), first_pass.batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or target.dim() > output.dim():
        return False
    in_model = {node.function for node in first_pass.trace.get_graph(output).nodes}
    is_class_index = not target.is_floating_point() and target.dim() == 1 and output.dim() == 2
    fits = is_class_index if kind == "Softmax" else target.is_floating_point() and target.shape == output.shape
    return fits and producer.function not in in_model


def _logs_of_probabilities(first_pass: ForwardPass, graph: Graph) -> Iterator[tuple[Node, Node, str]]:
    for producer, consumer in _LOG_OF_PROBABILITY.find_matches(graph):
        yield producer, consumer, producer.name
    output = score_tensor(first_pass.output)
    root = output.grad_fn if isinstance(output, Tensor) else None
    output_node = next((node for node in graph.nodes if node.function is root), None)
    for producer, consumer in _LOG_OF_WRITTEN_OUT.find_matches(graph):
        if kind := find_handwritten_activation(producer, output_node):
            yield producer, consumer, kind


def _smallest_probability(producer: Node) -> float:
    result = producer.get_saved("result")
    return float(result.min()) if isinstance(result, Tensor) and result.numel() else float("nan")


def _is_entropy(producer: Node, consumer: Node) -> bool:
    product = Pattern(frozenset({producer.name}), frozenset({"Mul"}), VALUE_PRESERVING_NODES)
    return any(producer in product.find_producers(user) for user in consumer.users if user.name == "Mul")


def _two_step_cross_entropy(probabilities: Tensor, target: Tensor) -> Tensor:
    return -torch.log(probabilities).gather(1, target[:, None]).mean()


def bad() -> Setup:
    """Probabilities, and a loss that takes their logarithm."""
    return classifier(nn.Softmax(dim=1), loss_fn=_two_step_cross_entropy)


def good() -> Setup:
    """Log-probabilities, and the loss that expects them."""
    return classifier(nn.LogSoftmax(dim=1), loss_fn=nn.NLLLoss())
