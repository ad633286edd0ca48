"""L206: softmax runs over the batch axis, or over an axis of size one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph, Node, Pattern
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.measurements.attention_effects import AttentionEffects
from nbdebug.measurements.axes import MismatchedSoftmax
from nbdebug.measurements.batch_distributions import BatchDistribution
from nbdebug.measurements.class_shares import ClassShares
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.weighted_sums import UnnormalizedSum
from nbdebug.rule_engine.expression_edits import is_namespace, only_call, set_axis, value_axis
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.single_values import (
    SINGLE_OUTPUT,
    explain_single_value,
    is_always_single,
    softmax_name,
    with_sigmoid,
)
from nbdebug.setup import Setup, losses
from nbdebug.setup.loaders import is_shuffled
from nbdebug.setup.losses import LossKind, score_tensor
from nbdebug.source.attribute_makers import called_attribute_line
from nbdebug.source.location import SourceLine, add_line

_SOFTMAXES = frozenset({"Softmax", "LogSoftmax"})
_INTO_LOSS = Pattern(_SOFTMAXES, frozenset({"NllLoss", "NllLoss2D", "BinaryCrossEntropy", "MseLoss", "Log"}))
_FINAL_SOFTMAX = Pattern(_SOFTMAXES, frozenset())
_CONSEQUENCES = (
    *(
        "L201",
        "L203",
        "L204",
        "L207",
        "L208",
        "L218",
        "D102",
        "M304",
        "M305",
        "M306",
        "M307",
        "G402",
        "G403",
        "G409",
        "G411",
        "G414",
    ),
    *("G415", "G416", "T601", "T606", "T607", "T608", "T610", "E702", "E703", "E706", "E709"),
)

_ATTENTION_CONSEQUENCES = ("M305", "M310", "G402", "G405", "T603", "T606", "T607", "T608", "T610")


@rule("L206", "error")
def softmax_wrong_axis(
    setup: Setup,
    first_pass: ForwardPass,
    graph: Graph,
    mismatched_softmaxes: list[MismatchedSoftmax],
    batch_distribution: BatchDistribution | NotChecked | None,
    class_shares: ClassShares | NotChecked | None,
    attention_effects: list[AttentionEffects] | NotChecked,
    unnormalized_sums: list[UnnormalizedSum] | NotChecked,
    loss_kind: LossKind | NotChecked,
    loss_calls: list[TorchCall] | NotChecked,
) -> Iterator[Finding]:
    """Softmax runs over the batch axis, or over an axis of size one.

    ## What it does
    Reads the axis of each softmax. Reported when it is the batch axis, also if the softmax is written by hand; when a
    softmax that ends the output runs over an axis other than the class axis (time, height, width); when such a softmax,
    the one inside cross-entropy, or one over the results of a single unit or of a pooling normalizes a single value;
    and when cross-entropy takes the single outputs of all samples for the classes of one sample. A warning is given if
    attention scores, or the weights of a soft argmax or a pooling, are normalized along an axis other than the one that
    the product with the values sums over.

    ## Why it matters
    Over the batch axis, a sample is scored against the other samples: its probabilities depend on them, and a batch of
    one sample does not work. Over a single value softmax is always 1: the loss is constant and every gradient is zero.

    ## How it is measured
    On the autograd graph of the first batch. The class axis is the one that the loss is defined for, the one that class
    indices lack, or the one along which one-hot targets sum to 1. A softmax by hand is found by its values: the output,
    its exponentials, or those of a result of the loss of the same shape, sum to 1 over the batch. A square matrix of
    samples by samples, as in contrastive losses, is not reported. Single outputs count if a sampler draws the samples
    of a batch at random, so that they are no list to be ranked, and if their targets do not sum to 1. Shares that sum
    to 1 over positions are found by their values and by gradients: those of a class depend on the scores of this class
    alone, and the loss falls most with the share of the class that the target names. Of a sum of constant positions, or
    of values that have the axis of the softmax too, the weights are added up: most totals must be 1. A sum is left out
    if another scale of its weights does not change the output, as where a division follows.

    ## How to fix
    Pass the class axis, ``dim=1`` or ``dim=-1``. For a single output use a sigmoid and binary cross-entropy.

    ## When to ignore
    When samples are meant to compete with each other.

    ## References
    Documentation of torch.nn.functional.softmax, which warns when ``dim`` is omitted and then uses 0 for 1-D and 3-D.
    """
    findings = [*_node_findings(setup, first_pass, graph, loss_kind, loss_calls)]
    yield from findings
    is_by_hand = all(_shape_and_axis(node)[1] != 0 for node in graph.get_nodes_by_name(*_SOFTMAXES))
    if isinstance(batch_distribution, BatchDistribution) and is_by_hand:
        yield _by_hand_finding(batch_distribution)
    elif isinstance(class_shares, ClassShares) and not findings:
        yield _class_shares_finding(class_shares)
    for crossed in mismatched_softmaxes:
        description = f"one axis, but the weighted sum over axis {crossed.summed_axis}: the weights do not sum to 1"
        attention_finding = _finding(crossed.node, crossed.shape, crossed.axis, description, _QUERY_AXIS)
        yield replace(attention_finding, severity="warning", explains=_ATTENTION_CONSEQUENCES)
    effects = attention_effects if isinstance(attention_effects, list) and not mismatched_softmaxes else []
    if crossed_effects := [item for item in effects if item.softmax_axis is not None]:
        yield _weights_finding(crossed_effects[0], len(crossed_effects))
    sums = unnormalized_sums if isinstance(unnormalized_sums, list) and not findings else []
    attentions = [crossed.node.line for crossed in mismatched_softmaxes]
    if others := [each for each in sums if each.softmax.line not in attentions]:
        yield _sum_finding(others[0])


def _node_findings(
    setup: Setup,
    first_pass: ForwardPass,
    graph: Graph,
    loss_kind: LossKind | NotChecked,
    loss_calls: list[TorchCall] | NotChecked,
) -> Iterator[Finding]:
    """Report the softmaxes of torch over the batch, over a single value, or over another axis than the classes."""
    final_nodes = _final_softmaxes(first_pass, graph)
    batch_size = first_pass.batch.size
    for node in graph.get_nodes_by_name(*_SOFTMAXES):
        shape, axis = _shape_and_axis(node)
        if axis is None:
            continue
        if shape[axis] == 1 and (node in final_nodes or is_always_single(node, shape, axis)) and batch_size > 1:
            explanation = SINGLE_OUTPUT if node in final_nodes else explain_single_value(node, shape, axis)
            value = 0 if "Log" in node.name else 1
            description = f"a single value, so it is always {value} and has no gradient"
            single = _finding(node, shape, axis, description, explanation)
            yield with_sigmoid(setup, first_pass, node, loss_kind, single) if node in final_nodes else single
        elif axis == 0 and shape[0] == batch_size > 1 and len(shape) > 1 and batch_size not in shape[1:]:
            values = "classes" if node in final_nodes and _has_class_indices(first_pass) else "values"
            description = f"the {batch_size} samples of the batch instead of the {values} of each sample"
            yield _batch_finding(setup, node, shape, description, values, is_final=node in final_nodes)
        elif (
            len(shape) == 1
            and node in final_nodes
            and (target := _flat_target(setup, first_pass, node, loss_calls, loss_kind)) is not None
        ):
            yield _flat_batch_finding(setup, first_pass, node, loss_kind, target)
        elif node in final_nodes and (class_axis := _find_class_axis(setup, first_pass, node)) not in (None, axis):
            yield _finding(
                node, shape, axis, f"an axis other than the class axis, which is axis {class_axis}", _OTHER_AXIS
            )


def _flat_target(
    setup: Setup,
    first_pass: ForwardPass,
    node: Node,
    loss_calls: list[TorchCall] | NotChecked,
    loss_kind: LossKind | NotChecked,
) -> Tensor | None:
    """Return the target of a loss that takes one number for each random sample for the classes of one sample.

    The items of a list that is ranked stay together, and a distribution over samples sums to 1.
    """
    shape, _ = _shape_and_axis(node)
    pairs: list[tuple[Any, Any]] = []
    if loss_kind == "bce":
        pairs = [(score_tensor(first_pass.output), first_pass.batch.target)]
    if node.name == "LogSoftmax" and isinstance(loss_calls, list):
        calls = [call for call in loss_calls if call.name == "cross_entropy" and len(call.inputs) > 1]
        pairs = [(call.inputs[0], call.inputs[1]) for call in calls]
    has_random_samples = is_shuffled(setup.train_loader) and shape == (first_pass.batch.size,) and shape[0] > 1
    for output, target in pairs if has_random_samples else ():
        if not isinstance(output, Tensor) or not isinstance(target, Tensor) or not target.is_floating_point():
            continue
        if output.shape == target.shape == shape and abs(float(target.sum()) - 1) > _SUM_TOLERANCE:
            return target
    return None


def _flat_batch_finding(
    setup: Setup, first_pass: ForwardPass, node: Node, loss_kind: LossKind | NotChecked, target: Tensor
) -> Finding:
    """Report a softmax over the single outputs of all samples."""
    is_probability = bool(((target >= 0) & (target <= 1)).all())
    description = f"the {len(target)} samples of the batch, whose targets do not sum to 1"
    fix = f"loss_fn = nn.{'BCEWithLogitsLoss' if is_probability else 'MSELoss'}()   # one output for each sample"
    finding = replace(_finding(node, tuple(target.shape), 0, description, (_FLAT_BATCH, fix)), edits=())
    return with_sigmoid(setup, first_pass, node, loss_kind, finding) if is_probability else finding


_SUM_TOLERANCE = 1e-3
_FLAT_BATCH = (
    "Cross-entropy reads a 1-D output and a 1-D floating-point target as the classes of a single sample, so the "
    "samples of the batch compete with each other."
)
_SOFTMAX_CALLS = ("softmax", "log_softmax")
_OTHER_AXIS = (
    "Each class is normalized over positions, so the probabilities of the classes at a position do not sum to 1.",
    "# over the classes at each position:\nsoftmax(x, dim=1)   # for (N, C, H, W); dim=-1 for (N, T, C)",
)
_QUERY_AXIS = (
    "The attention weights of each query should sum to 1 over the keys; here they sum to 1 over the queries or the "
    "heads. Where a mask hides a whole row along that axis, they are NaN.",
    "# over the keys, the axis that the product with the values sums over:\nweights = scores.softmax(dim=-1)",
)


def _weights_finding(effects: AttentionEffects, count: int) -> Finding:
    """Report attention weights that sum to one over another axis than the keys."""
    return Finding(
        message=f"Softmax runs over axis {effects.softmax_axis} of the attention scores, but the product with the "
        f"values sums over axis {effects.summed_axis} ({count} attentions): the weights of a query do not sum to 1.",
        where=effects.where,
        cause="The weights of each query should sum to 1 over the keys.",
        fix=f"# over the keys, the axis that the product with the values sums over:\n"
        f"weights = scores.softmax(dim={effects.summed_axis})",
        evidence={"axis": effects.softmax_axis, "summed_axis": effects.summed_axis, "attentions": count},
        explains=_ATTENTION_CONSEQUENCES,
        severity="warning",
    )


def _sum_finding(weighted: UnnormalizedSum) -> Finding:
    """Report a sum whose weights do not add up to one, since their softmax runs over another axis."""
    shape, axis = tuple(weighted.softmax.outputs[0].shape), weighted.axis
    creation_line = called_attribute_line(weighted.softmax.line, _SOFTMAXES)
    where = weighted.softmax.where
    items = "positions" if weighted.weights_positions else "items"
    return Finding(
        message=f"A softmax over axis {axis} of {shape} weights a sum over another axis. The weights of this sum add "
        f"up to {weighted.total:.3g} on average.",
        where=add_line(where, creation_line) if creation_line else where,
        cause=f"A weighted mean over {items} needs weights that sum to 1 over these {items}; here they sum to 1 over "
        f"axis {axis}.",
        fix=f"# take the softmax over the summed {items}; flatten them first if they have two axes:\n"
        "weights = scores.flatten(2).softmax(dim=-1).view_as(scores)",
        evidence={"shape": list(shape), "axis": axis, "total": weighted.total},
        explains=_ATTENTION_CONSEQUENCES,
        severity="warning",
    )


def _batch_finding(
    setup: Setup, node: Node, shape: tuple[int, ...], description: str, values: str, *, is_final: bool
) -> Finding:
    """Report a softmax over the samples of a batch; between layers, its axis may be any other one."""
    axes = [str(number) for number, length in enumerate(shape) if number and length > 1]
    cause, fix = _batch_axis(softmax_name(node), values, shape)
    if name := _call_without_axis(setup, node):
        cause = f"{cause} {name}() without dim takes axis 0 for inputs of three axes."
    if is_final or len(axes) < 2:
        return _finding(node, shape, 0, description, (cause, fix))
    fix = f"Take the axis that is summed after the softmax: {', '.join(axes[:-1])} or {axes[-1]}."
    return replace(_finding(node, shape, 0, description, (cause, fix)), edits=())


def _call_without_axis(setup: Setup, node: Node) -> str:
    """Return the name of the softmax if neither its call nor its module names the axis, so that torch takes one."""
    module = setup.eager_model.get_submodule(node.module or "")
    if isinstance(module, (nn.Softmax, nn.LogSoftmax)):
        return type(module).__name__ if module.dim is None else ""
    call = only_call(node.line, _SOFTMAX_CALLS)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    if call is None or len(call.args) != 1 or isinstance(call.args[0], ast.Starred):
        return ""
    is_method = owner is not None and not is_namespace(owner)
    names_axis = any(keyword.arg in ("dim", None) for keyword in call.keywords)
    return "" if is_method or names_axis else ast.unparse(call.func)


def _batch_axis(name: str, values: str, shape: tuple[int, ...]) -> tuple[str, str]:
    """Cause and fix for a softmax over the samples of a batch."""
    return "Axis 0 is the batch axis.", f"# over the {values} of each sample:\n{name}(x, dim={value_axis(shape)})"


def _has_class_indices(first_pass: ForwardPass) -> bool:
    target = first_pass.batch.target
    return isinstance(target, Tensor) and target.dtype == torch.int64


def _final_softmaxes(first_pass: ForwardPass, graph: Graph) -> set[Node]:
    """The softmaxes that end the output, whose result the loss takes unchanged, or that the loss itself applies."""
    nodes = {producer for producer, _ in _INTO_LOSS.find_matches(graph)}
    output: Any = score_tensor(first_pass.output)
    if not isinstance(output, Tensor):
        return nodes
    output_graph = first_pass.trace.get_graph(output)
    last_functions = {
        node.function for node in _FINAL_SOFTMAX.search_upstream([output_graph.root] if output_graph.root else [])
    }
    inner_functions = {node.function for node in output_graph.nodes} - last_functions
    return nodes | {node for node in graph.get_nodes_by_name(*_SOFTMAXES) if node.function not in inner_functions}


def _find_class_axis(setup: Setup, first_pass: ForwardPass, node: Node) -> int | None:
    """The class axis of the output that a softmax returns or receives; None if it is unknown."""
    output, target = score_tensor(first_pass.output), first_pass.batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.dim() < 3:
        return None
    if not _is_at_output(node, output):
        return None
    if target.shape == output.shape and target.is_floating_point():
        sums = [axis for axis in range(output.dim()) if bool((target.sum(axis) - 1).abs().lt(1e-4).all())]
        return sums[0] if len(sums) == 1 else None
    # Targets of whole sequences lack an axis too, that of the steps: a custom loss shows its classes by its gradient.
    return 1 if losses.get_loss_kind(setup.loss_fn) in ("cross-entropy", "nll") else None


def _is_at_output(node: Node, output: Tensor) -> bool:
    """Return whether a softmax returns the output, or receives it, with all axes in place."""
    return any(candidate.function is output.grad_fn for candidate in (node, *node.inputs))


def _shape_and_axis(node: Node) -> tuple[tuple[int, ...], int | None]:
    """The shape of the result of a softmax and the axis that it runs over, if torch saved both."""
    result, axis = node.get_saved("result"), node.get_saved("dim")
    if not isinstance(result, Tensor) or not isinstance(axis, int) or not result.dim():
        return (), None
    return tuple(result.shape), axis % result.dim()


def _finding(node: Node, shape: tuple[int, ...], axis: int, description: str, explanation: tuple[str, str]) -> Finding:
    cause, fix = explanation
    creation_line = called_attribute_line(node.line, _SOFTMAXES)  # the line that sets the axis of a module
    return Finding(
        message=f"{softmax_name(node)} over axis {axis} of {shape} runs over {description}.",
        where=add_line(node.where, creation_line) if creation_line else node.where,
        cause=cause,
        fix=fix,
        edits=_axis_edits(node, creation_line, explanation, axis, shape),
        evidence={"shape": list(shape), "axis": axis},
        explains=_CONSEQUENCES,
    )


def _axis_edits(
    node: Node,
    creation_line: SourceLine | None,
    explanation: tuple[str, str],
    axis: int,
    shape: tuple[int, ...],
) -> tuple[Edit, ...]:
    """Return the change of the axis of a softmax over the batch, over positions or over queries."""
    if axis != 0 and explanation not in (_OTHER_AXIS, _QUERY_AXIS):
        return ()
    names = (*_SOFTMAX_CALLS, *(name.capitalize() for name in _SOFTMAX_CALLS), "LogSoftmax")
    repaired = 1 if explanation == _OTHER_AXIS else value_axis(shape) if axis == 0 else -1
    return set_axis(creation_line or node.line, names, str(repaired))


def _by_hand_finding(distribution: BatchDistribution) -> Finding:
    """Report probabilities that sum to one over the batch, made by other operations than a softmax."""
    shape, (cause, fix) = distribution.shape, _batch_axis("log_softmax", "values", distribution.shape)
    subject = "The output is" if distribution.is_output else "The loss compares"
    return Finding(
        message=f"{subject} probabilities or log-probabilities {shape} that sum to 1 over axis 0, the "
        f"{shape[0]} samples of the batch, instead of the {shape[1]} values of each sample.",
        where=distribution.where,
        cause=cause,
        fix=fix,
        evidence={"shape": list(shape), "axis": 0},
        explains=_CONSEQUENCES,
    )


def _class_shares_finding(shares: ClassShares) -> Finding:
    """Report shares of classes that sum to one over positions, found by their values and the gradient of the loss."""
    summed = " and ".join(map(str, shares.summed_axes))
    subject = "The output is" if shares.call is None else "The loss rewards"
    axes = "axis" if len(shares.summed_axes) == 1 else "axes"
    name = shares.call.name if shares.call and shares.call.name in _SOFTMAX_CALLS else "softmax"
    line = shares.call.line if shares.call else None
    return Finding(
        message=f"{subject} probabilities or log-probabilities {shares.shape} that sum to 1 over {axes} {summed} "
        f"instead of the class axis, which is axis {shares.class_axis}.",
        where=shares.where,
        cause=_OTHER_AXIS[0],
        fix=f"{name}(x, dim={shares.class_axis})   # over the {shares.shape[shares.class_axis]} classes",
        edits=set_axis(line, _SOFTMAX_CALLS, str(shares.class_axis)) if line else (),
        evidence={"shape": list(shares.shape), "axis": shares.summed_axes[0], "class_axis": shares.class_axis},
        explains=_CONSEQUENCES,
    )


def bad() -> Setup:
    """A softmax over a single output."""
    x, y = points(2)
    return minimal_setup(network(1, nn.Softmax(dim=1)), x, y.float().unsqueeze(1), nn.BCELoss())


def good() -> Setup:
    """A log-softmax over two outputs."""
    x, y = points(2)
    return minimal_setup(network(2, nn.LogSoftmax(dim=1)), x, y, nn.NLLLoss())
