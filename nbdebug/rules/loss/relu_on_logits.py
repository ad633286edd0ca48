"""L210: logits pass a ReLU before the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.finding import Finding
from nbdebug.graph import HARMLESS, Graph, Node, Pattern
from nbdebug.graph.ranges import CALLS, range_of
from nbdebug.graph.rewrite import drop
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import Kind, scores

CLAMPS = frozenset({"Relu", "Softplus", "Hardtanh", "Clamp", "ClampMin", "ClampMax"})
LOGITS = Pattern(CLAMPS, frozenset({"LogSoftmax", "BinaryCrossEntropyWithLogits"}))
LAST = Pattern(frozenset({"Relu"}), frozenset())
SHARES = Pattern(CLAMPS, frozenset({"BinaryCrossEntropy"}))
LAYER = Pattern(frozenset({"Addmm", "Mm", "Bmm", "Convolution"}), frozenset(), HARMLESS | CLAMPS | {"Add"})


@rule("L210", "warning")
def relu_on_logits(
    first_pass: Pass, graph: Graph, output: Any, loss_kind: Kind, *, width: float = 10.0
) -> Iterator[Finding]:
    """Logits pass a ReLU, or another clamp, before the loss.

    ## What it does
    Finds a ReLU or a clamp whose output reaches cross-entropy or a with-logits loss as it is, one that makes
    probabilities for binary cross-entropy of what a layer gives, and a ReLU that ends an output which a loss of your
    own compares with zeros and ones.

    ## Why it matters
    Where the ReLU is zero, no gradient comes back: a class whose logit is negative for every sample is never learned.
    Logits that cannot be negative cannot call anything improbable; values above one are no probabilities.

    ## How it is measured
    On the autograd graph of the first batch. A clamp counts where its bounds are less than ``width`` apart, the logits
    of probabilities from 0.007 to 0.993, or where it forbids negative values.

    ## How to fix
    Take the activation off the head. To compare with zeros and ones, use a sigmoid.

    ## When to ignore
    When only non-negative evidence is meant.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: logits need not be positive.
    """
    ends = [node for node, _ in LOGITS.matches(graph) if narrow(node, width)]
    ends += [node for node, _ in SHARES.matches(graph) if any(LAYER.behind(node.inputs))]
    if not ends and loss_kind == "other" and against_zeros_and_ones(first_pass, output):
        root = first_pass.trace.graph(scores(output)).root
        ends = list(LAST.behind([root])) if root else []
    for node in ends:
        call, reach = CALLS[node.name], range_of(node)
        dead = share_of_zeros(node)
        yield Finding(
            message=f"The output passes {call} on its way into the loss: no value can lie outside {reach}"
            + (f", and {dead:.0%} of this batch are zero and get no gradient." if dead else "."),
            where=node.where,
            cause=f"{call} stands between the last layer and the loss.",
            fix=drop(node, {call, call.title(), "ReLU"}, f"hand the logits over without {call}"),
            evidence={"range": str(reach), "share of zeros": dead, "loss": loss_kind},
            explains=("L208", "G401", "G412", "G416", "T601", "T606", "T608", "T610", "E702", "E706", "E709", "M307"),
        )


def narrow(node: Node, width: float) -> bool:
    """Whether the range is one that logits need to leave."""
    reach = range_of(node)
    return reach.low >= 0 or reach.high <= 0 or reach.high - reach.low < width


def against_zeros_and_ones(first_pass: Pass, output: Any) -> bool:
    """Whether targets of the shape of the output are all 0 or 1."""
    target, found = first_pass.batch.target, scores(output)
    same = isinstance(target, Tensor) and isinstance(found, Tensor) and target.shape == found.shape
    return same and bool(((target == 0) | (target == 1)).all())


def share_of_zeros(node: Node) -> float:
    """How much of the first batch a ReLU has set to zero."""
    result = node.saved("result")
    return float((result == 0).float().mean()) if isinstance(result, Tensor) else 0.0


def bad() -> Setup:
    """A ReLU at the end of a classifier."""
    return classifier(nn.ReLU())


def good() -> Setup:
    """The same classifier, which returns its logits."""
    return classifier()
