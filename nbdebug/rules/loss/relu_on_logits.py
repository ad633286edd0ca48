"""L210: logits pass through a ReLU before the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from nbdebug.autograd import VALUE_PRESERVING_NODES, Graph, Node, Pattern
from nbdebug.autograd.patterns import FUNCTION_NAMES, ValueRange, get_value_range, suggest_removal
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.output_range import OutputRange
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind, score_tensor

_CLAMPS = frozenset({"Relu", "Softplus", "Hardtanh", "Clamp", "ClampMin", "ClampMax"})
_LOGITS = Pattern(_CLAMPS, frozenset({"LogSoftmax", "BinaryCrossEntropyWithLogits"}))
_FINAL_RELU = Pattern(frozenset({"Relu"}), frozenset())
_PROBABILITIES = Pattern(_CLAMPS, frozenset({"BinaryCrossEntropy"}))
_CONSEQUENCES = ("L208", "G401", "G412", "G416", "T601", "T606", "T608", "T610", "E702", "E706", "E709", "M307", "T614")
_LAYER = Pattern(
    frozenset({"Addmm", "Mm", "Bmm", "Convolution"}), frozenset(), VALUE_PRESERVING_NODES | _CLAMPS | {"Add"}
)


@rule("L210", "warning")
def relu_on_logits(
    first_pass: ForwardPass,
    graph: Graph,
    output: Any,
    loss_kind: LossKind,
    output_range: OutputRange | NotChecked,
    *,
    width: float = 10.0,
) -> Iterator[Finding]:
    """Logits pass through a ReLU, or another clamp, before the loss.

    ## What it does
    Finds a ReLU or a clamp whose output reaches cross-entropy or a with-logits loss unchanged, one that turns the
    result of a layer into probabilities for binary cross-entropy, and a ReLU that ends an output which a custom loss
    compares with zeros and ones.

    ## Why it matters
    No gradient passes where the ReLU is zero: a class whose logit is negative for every sample is never learned. Logits
    that cannot be negative cannot mark a class as improbable, and values above one are not probabilities.

    ## How it is measured
    On the autograd graph of the first batch. A clamp counts if its bounds are less than ``width`` apart (the logits of
    probabilities from 0.007 to 0.993), or if it excludes negative values. If the graph shows none, the range is
    measured: random numbers replace the result of the last layer, and more than a twentieth of the logits lie exactly
    on a bound.

    ## How to fix
    Remove the activation from the head. To compare with zeros and ones, use a sigmoid.

    ## When to ignore
    When only non-negative evidence is intended.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: logits need not be positive.
    """
    activations = [node for node, _ in _LOGITS.find_matches(graph) if _is_narrow(node, width)]
    activations += [node for node, _ in _PROBABILITIES.find_matches(graph) if any(_LAYER.search_upstream(node.inputs))]
    if not activations and loss_kind == "other" and _has_binary_targets(first_pass, output):
        root = first_pass.trace.get_graph(score_tensor(output)).root
        activations = list(_FINAL_RELU.search_upstream([root])) if root else []
    if not activations and not isinstance(output_range, NotChecked) and _clamps_logits(output_range, loss_kind, width):
        yield _measured_finding(output_range, loss_kind)
    for node in activations:
        call, value_range = FUNCTION_NAMES[node.name], get_value_range(node)
        zero_share = _share_of_zeros(node)
        yield Finding(
            message=f"The output passes through {call} before the loss: all values lie in {value_range}"
            + (f", and {zero_share:.0%} of the values are zero and have no gradient." if zero_share else "."),
            where=node.where,
            cause=f"{call} is applied between the last layer and the loss.",
            fix=suggest_removal(node, {call, call.title(), "ReLU"}, f"return the logits without {call}"),
            evidence={"range": str(value_range), "share of zeros": zero_share, "loss": loss_kind},
            explains=_CONSEQUENCES,
        )


def _clamps_logits(output_range: OutputRange, loss_kind: LossKind, width: float) -> bool:
    """Return whether the output, which should be logits, is clamped to a range that logits exceed."""
    is_logits = loss_kind in ("cross-entropy", "bce-with-logits")
    return is_logits and output_range.is_clamped and _excludes_logits(output_range.values, width)


def _measured_finding(output_range: OutputRange, loss_kind: LossKind) -> Finding:
    """Report a clamp that was found by its effect."""
    share = max(output_range.share_at_low, output_range.share_at_high)
    call = output_range.call or "the head"
    return Finding(
        message=f"The output passes through {call} before the loss: for random values of the last layer, all outputs "
        f"lie in {output_range.values}, and {share:.0%} of them exactly on a bound, where they have no gradient.",
        where=output_range.where,
        cause=f"{call} is applied between the last layer and the loss.",
        fix="# return the result of the last layer itself",
        evidence={"range": str(output_range.values), "share on a bound": share, "loss": loss_kind},
        explains=_CONSEQUENCES,
    )


def _is_narrow(node: Node, width: float) -> bool:
    """Return whether logits need values outside the range of a node."""
    return _excludes_logits(get_value_range(node), width)


def _excludes_logits(value_range: ValueRange, width: float) -> bool:
    """Return whether logits need values outside a range."""
    return value_range.low >= 0 or value_range.high <= 0 or value_range.high - value_range.low < width


def _has_binary_targets(first_pass: ForwardPass, output: Any) -> bool:
    target, predictions = first_pass.batch.target, score_tensor(output)
    has_same_shape = (
        isinstance(target, Tensor) and isinstance(predictions, Tensor) and target.shape == predictions.shape
    )
    return has_same_shape and bool(((target == 0) | (target == 1)).all())


def _share_of_zeros(node: Node) -> float:
    """Share of the values of the first batch that a ReLU has set to zero."""
    result = node.get_saved("result")
    return float((result == 0).float().mean()) if isinstance(result, Tensor) else 0.0


def bad() -> Setup:
    """A ReLU at the end of a classifier."""
    return classifier(nn.ReLU())


def good() -> Setup:
    """The same classifier, which returns its logits."""
    return classifier()
