"""L203: the logarithm of a softmax or a sigmoid, taken by hand."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.finding import Finding
from nbdebug.graph import HARMLESS, Graph, Node, Pattern
from nbdebug.graph.handmade import written_out
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import scores

THROUGH = frozenset({*HARMLESS, "Rsub", "Mul"})
BY_HAND = Pattern(frozenset({"Softmax", "Sigmoid"}), frozenset({"Log", "Log2", "Log10"}), HARMLESS | {"Rsub"})
WRITTEN_OUT = Pattern(frozenset({"Reciprocal", "Pow", "Div"}), BY_HAND.consumer, THROUGH)
STABLE = {
    "Softmax": ("softmax", "F.log_softmax(logits, dim=-1)", "F.cross_entropy(logits, target)"),
    "Sigmoid": ("sigmoid", "F.logsigmoid(logits)", "F.binary_cross_entropy_with_logits(logits, target)"),
}


@rule("L203", "warning")
def log_of_softmax(first_pass: Pass, graph: Graph) -> Iterator[Finding]:
    """The logarithm of a softmax or a sigmoid is taken by hand.

    ## What it does
    Finds a softmax or sigmoid, torch's own or written out with exp, whose result goes straight into a logarithm, with
    nothing that keeps it from zero.

    ## Why it matters
    Float32 has no positive number under 1.4e-45: once one logit is about 104 below another, softmax gives exactly 0,
    its logarithm is -inf, and the next gradient is NaN. One confident mistake is enough to lose the run.

    ## How it is measured
    On the autograd graph of the first batch. An entropy, p log p, is a note, since it is not what the model learns by.

    ## How to fix
    Use log_softmax or logsigmoid, or the loss that takes logits: they compute the same without the detour.

    ## When to ignore
    When the logits are bounded.

    ## References
    Documentation of torch.nn.functional.log_softmax: doing the two operations separately is slower and unstable.
    """
    seen: set[Node] = set()
    for producer, consumer, kind in by_hand(first_pass, graph):
        if producer in seen:
            continue
        entropy = is_entropy(producer, consumer)
        seen |= set() if entropy else {producer}
        call, stable, loss = STABLE[kind]
        smallest = least(producer)
        yield Finding(
            message=f"log({call}(x)) is taken by hand: -inf once {call} gives 0, and it gives {smallest:.2g} already.",
            where=consumer.where,
            cause=f"{call} underflows to 0 before the logarithm is taken.",
            fix=f"log_p = {stable}\n# or, as the whole loss:\nloss = {loss}",
            evidence={"producer": kind, "smallest": smallest},
            explains=("G405", "G406", "T602", "T603", "T605"),
            severity="note" if entropy else None,
        )


def by_hand(first_pass: Pass, graph: Graph) -> Iterator[tuple[Node, Node, str]]:
    """Each softmax or sigmoid with the logarithm that takes it, and which of the two it is."""
    for producer, consumer in BY_HAND.matches(graph):
        yield producer, consumer, producer.name
    output = scores(first_pass.output)
    root = output.grad_fn if isinstance(output, Tensor) else None
    last = next((node for node in graph.nodes if node.function is root), None)
    for producer, consumer in WRITTEN_OUT.matches(graph):
        if kind := written_out(producer, last):
            yield producer, consumer, kind


def least(producer: Node) -> float:
    """The smallest value that a softmax or sigmoid gave."""
    result = producer.saved("result")
    return float(result.min()) if isinstance(result, Tensor) and result.numel() else float("nan")


def is_entropy(producer: Node, consumer: Node) -> bool:
    """Whether the logarithm is multiplied by what it was taken of."""
    same = Pattern(frozenset({producer.name}), frozenset({"Mul"}), HARMLESS)
    return any(producer in same.feeding(user) for user in consumer.users if user.name == "Mul")


def summed(probabilities: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy in two steps."""
    return -torch.log(probabilities).gather(1, target[:, None]).mean()


def bad() -> Setup:
    """Probabilities, and a loss that takes their logarithm."""
    return classifier(nn.Softmax(dim=1), loss_fn=summed)


def good() -> Setup:
    """Log-probabilities, and the loss that takes them."""
    return classifier(nn.LogSoftmax(dim=1), loss_fn=nn.NLLLoss())
