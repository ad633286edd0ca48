"""L204: the input of the NLL loss, or of the CTC loss, is not log-probabilities."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph, Node, Pattern
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.loop_monitor.conclusions import OUTPUT_VALUES_UNCHANGED
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.rule_engine.expression_edits import expressions_at, line_of, rename_call, set_axis
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.source.attribute_makers import called_attribute_line
from nbdebug.source.edits import describe_edits, line_changes, wrap_node
from nbdebug.source.location import SourceLine, add_line

_PROBABILITIES = Pattern(frozenset({"Softmax", "Sigmoid"}), frozenset({"NllLoss", "NllLoss2D"}))
_PRODUCER_MODULES = frozenset({"Softmax", "Sigmoid"})
_LOG_PROBABILITIES = Pattern(frozenset({"LogSoftmax"}), frozenset())
_LOG_SOFTMAXES = ("log_softmax", "LogSoftmax")
_CTC_ARGUMENTS = 4  # scores, targets and both lengths
_CONSEQUENCES = ("L208", "L213", "L218", "G412", "T602", "T604", "T606", "T608", "T610", "E703", "E709", "O501")


@rule("L204", "error")
def nll_without_log_softmax(
    first_pass: ForwardPass,
    graph: Graph,
    kl_divergences: list[TorchCall],
    loss_calls: list[TorchCall] | NotChecked,
    *,
    tolerance: float = 0.02,
) -> Iterator[Finding]:
    """The input of the NLL loss, or of the CTC loss, is not log-probabilities.

    ## What it does
    Checks whether the exponentials of the input of the negative log-likelihood, of the input of the CTC loss, or of the
    first argument of kl_div, sum to 1 over the classes.

    ## Why it matters
    The loss only picks the value of the true class and negates it. For logits it decreases without bound as they grow;
    for probabilities it lies between -1 and 0 and hardly distinguishes bad predictions from good ones. The CTC loss of
    probabilities becomes negative, and its gradient is only right for log-probabilities.

    ## How it is measured
    On the first batch; the mean of the sums may differ from 1 by ``tolerance``, which half precision needs.
    The CTC loss is checked on the frames that its input lengths count. If a log-softmax made the input, it runs over
    another axis than the classes. The finding names its line. It also names the class axis: along it, the
    result of the log-softmax holds the values that the loss takes for one position.

    ## How to fix
    Return log_softmax, or pass the logits to cross-entropy, which applies it.

    ## When to ignore
    When unnormalized scores are intended.

    ## References
    Documentation of torch.nn.NLLLoss: the input is expected to contain log-probabilities;
    documentation of torch.nn.CTCLoss, of log_probs.
    """
    softmax_inputs = {consumer: producer for producer, consumer in _PROBABILITIES.find_matches(graph)}
    output = score_tensor(first_pass.output)
    output_node = first_pass.trace.get_graph(output).root if isinstance(output, Tensor) else None
    makers = _Makers([] if isinstance(loss_calls, NotChecked) else loss_calls, output, output_node)
    for node in graph.get_nodes_by_name("NllLoss", "NllLoss2D"):
        values = node.get_saved("self")
        if not isinstance(values, Tensor) or not values.numel():
            continue
        total = float(values.detach().float().exp().sum(1 if values.dim() > 1 else 0).mean())
        if not abs(total - 1) > tolerance:  # also skips NaN, which does not show what the input is
            continue
        if other_axis := next(_LOG_PROBABILITIES.find_producers(node), None):
            classes = values.detach().movedim(1, -1) if values.dim() > 1 else values.detach()
            yield _other_axis_finding(other_axis, "NLL", total, classes, first_pass.batch.size)
            continue
        is_normalized = _probability_axis(values.detach(), tolerance) is not None
        maker = makers.find(values) if is_normalized and node not in softmax_inputs else None
        input_kind = "probabilities" if node in softmax_inputs or is_normalized else "logits"
        yield Finding(
            message=f"The input of the NLL loss is {input_kind}: "
            f"their exponentials sum to {total:.3g} over the classes instead of 1.",
            where=maker or _input_location(node, softmax_inputs.get(node) or output_node),
            cause="The loss expects log-probabilities, as log_softmax returns them.",
            fix="loss_fn = nn.CrossEntropyLoss()  # on logits"
            if input_kind == "logits"
            else f"log_p = F.log_softmax(logits, dim={_axis_of_shares(values, softmax_inputs.get(node), tolerance)})"
            "  # instead of softmax",
            evidence={"sum of exponentials": total, "fed": input_kind},
            explains=_CONSEQUENCES,
            assumes=(OUTPUT_VALUES_UNCHANGED,),
        )
    for node in graph.get_nodes_by_name("CtcLoss"):
        yield from _ctc_findings(node, first_pass.batch.size, tolerance)
    for call in kl_divergences:
        probabilities, axes = call.inputs[0].float().exp(), range(call.inputs[0].dim())
        sums = [probabilities.sum(axis) for axis in axes] + [probabilities.flatten(axis).sum(axis) for axis in axes]
        if sums and not any(float((total - 1).abs().mean()) <= tolerance for total in sums):
            yield _kl_div_finding(call, graph, makers, float(sums[-1].mean()), tolerance)


@dataclass(frozen=True)
class _Makers:
    """What makes the values that a loss receives: the calls of the loss, and the operation that makes the output."""

    calls: list[TorchCall]
    output: Any
    output_node: Node | None

    def find(self, values: Tensor) -> Location | None:
        """Return the first call of the loss that returns some values, or the operation if they are the output."""
        makers = (call for call in self.calls if call.line and any(_are_equal(made, values) for made in call.outputs))
        if maker := next(makers, None):
            return maker.where
        is_output = isinstance(self.output, Tensor) and _are_equal(self.output, values)
        return self.output_node.where if is_output and self.output_node and self.output_node.line else None


def _are_equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first.detach(), second.detach())


def _axis_of_shares(values: Tensor, maker: Node | None, tolerance: float) -> int:
    """Return the axis along which probabilities sum to 1: that of the softmax that makes them, before any view."""
    axis, result = (maker.get_saved("dim"), maker.get_saved("result")) if maker else (None, None)
    if isinstance(axis, int) and isinstance(result, Tensor):
        return axis % result.dim()
    return _probability_axis(values.detach(), tolerance) or min(1, values.dim() - 1)


def _ctc_findings(node: Node, batch_size: int, tolerance: float) -> Iterator[Finding]:
    """Report a CTC loss of frames × samples × classes whose exponentials do not sum to 1 over the classes."""
    values, lengths = node.get_saved("log_probs"), node.get_saved("input_lengths")
    if not isinstance(values, Tensor) or lengths is None:
        return
    frames = values.detach().float().reshape(len(values), -1, values.shape[-1])
    is_counted = torch.arange(len(frames))[:, None] < torch.as_tensor(lengths).cpu().reshape(1, -1)
    frames = frames.cpu()[is_counted.expand(frames.shape[:2])]
    total = float(frames.exp().sum(-1).mean())
    if not frames.numel() or not abs(total - 1) > tolerance:
        return
    if other_axis := next(_LOG_PROBABILITIES.find_producers(node), None):
        yield _other_axis_finding(other_axis, "CTC", total, values.detach(), batch_size)
        return
    is_probabilities = bool((frames >= 0).all()) and abs(float(frames.sum(-1).mean()) - 1) <= tolerance
    input_kind = "probabilities" if is_probabilities else "logits"
    where = _input_location(node, next(_PROBABILITIES.find_producers(node), None) if is_probabilities else None)
    line = line_of(where)
    edits = rename_call(line, "softmax", "log_softmax") if is_probabilities else _take_log_softmax(line)
    yield Finding(
        message=f"The input of the CTC loss is {input_kind}: "
        f"their exponentials sum to {total:.3g} over the classes instead of 1.",
        where=where,
        cause="The loss expects log-probabilities, as log_softmax returns them.",
        fix=describe_edits(edits) or "Pass the log_softmax of the scores over the classes to the CTC loss.",
        edits=edits,
        evidence={"sum of exponentials": total, "fed": input_kind},
        explains=_CONSEQUENCES,
        assumes=(OUTPUT_VALUES_UNCHANGED,),
    )


def _take_log_softmax(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the scores that the only call of a CTC loss on a line takes into their log-probabilities."""
    calls = [node for node in expressions_at(line) if isinstance(node, ast.Call)]
    calls = [call for call in calls if len(call.args) >= _CTC_ARGUMENTS]
    return (wrap_node(line.file, calls[0].args[0], "{}.log_softmax(-1)"),) if line and len(calls) == 1 else ()


def _other_axis_finding(log_softmax: Node, loss: str, total: float, classes: Tensor, batch_size: int) -> Finding:
    """Report a log-softmax whose result reaches the loss, but does not run over the classes.

    ``classes`` are the values that the loss takes, with the classes along the last axis.
    """
    result, axis = log_softmax.get_saved("result"), log_softmax.get_saved("dim")
    shape = tuple(result.shape) if isinstance(result, Tensor) else ()
    axis = axis % len(shape) if isinstance(axis, int) and shape else axis
    class_axis = _class_axis(result.detach(), axis, classes) if isinstance(result, Tensor) else None
    is_of_samples = shape.count(batch_size) == 1 and batch_size > 1 and shape.index(batch_size) == axis
    cause = f"Axis {axis} holds the {batch_size} samples of the batch" if is_of_samples else ""
    if class_axis is not None:
        cause = f"{f'{cause}; the' if cause else 'The'} {shape[class_axis]} classes are along axis {class_axis}"
    creation_line = called_attribute_line(log_softmax.line, {"LogSoftmax"})
    edits = () if class_axis is None else set_axis(creation_line or log_softmax.line, _LOG_SOFTMAXES, str(class_axis))
    return Finding(
        message=f"The input of the {loss} loss is log-probabilities over axis {axis} of shape {shape}, not over the "
        f"classes: their exponentials sum to {total:.3g} over the classes instead of 1.",
        where=add_line(log_softmax.where, creation_line) if creation_line else log_softmax.where,
        cause=f"{cause}." if cause else "The log-softmax runs over another axis than that of the classes.",
        fix=describe_edits(edits)
        or (
            "Take the log_softmax along the axis of the classes."
            if class_axis is None
            else f"log_p = logits.log_softmax({class_axis})   # over the {shape[class_axis]} classes"
        ),
        edits=edits,
        evidence={
            "sum of exponentials": total,
            "fed": "log-probabilities",
            "axis": axis,
            "class axis": class_axis,
            "shape": shape,
        },
        explains=(*_CONSEQUENCES, "T607", "T601"),
    )


def _class_axis(result: Tensor, axis: int, classes: Tensor) -> int | None:
    """Return the only axis of a result along which it has the values of one position that the loss takes, in order."""
    row = classes.reshape(-1, classes.shape[-1])[0]
    axes = [other for other, length in enumerate(result.shape) if other != axis and length == len(row) > 1]
    axes = [other for other in axes if bool((result.movedim(other, -1) == row).all(-1).any())]
    return axes[0] if len(axes) == 1 else None


def _kl_div_finding(call: TorchCall, graph: Graph, makers: _Makers, total: float, tolerance: float) -> Finding:
    """Report a first argument that is no log-probabilities, with what its own sums show it to be."""
    producer = next(filter(None, (_made_by(node, call.inputs[0]) for node in graph.nodes)), None)
    axis = _probability_axis(call.inputs[0], tolerance)
    state = f"not log-probabilities: its exponentials sum to {total:.3g} instead of 1."
    edits: tuple[Edit, ...] = ()
    if axis is not None:
        rows = "rows" if axis == call.inputs[0].dim() - 1 else f"values along axis {axis}"
        state = f"probabilities: its {rows} sum to 1, and their exponentials to {total:.3g}."
        edits = rename_call(producer.line if producer else None, "softmax", "log_softmax")
    fixed = line_changes(edits)
    maker = makers.find(call.inputs[0]) if axis is not None else None
    return Finding(
        message=f"The first argument of kl_div is {state}",
        where=_producer_location(producer) if producer else maker or call.where,
        cause="The first argument must be log-probabilities of the model: log_softmax, not softmax."
        if edits
        else "The first argument must be log-probabilities of the model; the second argument is probabilities.",
        fix=fixed[0].added[0].strip()
        if fixed
        else f"F.kl_div(F.log_softmax(logits, dim={_class_axis_of_divergence(call, axis, tolerance)}), target, "
        "reduction='batchmean')",
        edits=edits,
        evidence={"sum of exponentials": total, "fed": "kl_div", "axis of sums of 1": axis},
        explains=_CONSEQUENCES,
        assumes=(OUTPUT_VALUES_UNCHANGED,),
    )


def _class_axis_of_divergence(call: TorchCall, axis: int | None, tolerance: float) -> int:
    """Return the axis of the classes of a divergence: that along which its shares, or those of its target, sum to 1."""
    target = call.inputs[1] if len(call.inputs) > 1 else None
    if axis is None and isinstance(target, Tensor) and target.shape == call.inputs[0].shape:
        axis = _probability_axis(target.detach(), tolerance)
    return axis if axis is not None else min(1, call.inputs[0].dim() - 1)


def _probability_axis(values: Tensor, tolerance: float) -> int | None:
    """Return the last axis along which values that are not negative sum to 1; None if there is none."""
    if not values.dim() or not values.numel() or bool((values < 0).any()):
        return None
    sums = {axis: values.float().sum(axis) for axis in range(values.dim())}
    fitting = [axis for axis, total in sums.items() if values.shape[axis] > 1 and _is_one(total, tolerance)]
    return max(fitting, default=None)


def _is_one(totals: Tensor, tolerance: float) -> bool:
    return float((totals - 1).abs().max()) <= tolerance


def _made_by(node: Node, values: Tensor) -> Node | None:
    """Return an operation with a known line if it makes some probabilities."""
    result = node.get_saved("result") if node.line and node.name in _PROBABILITIES.producer else None
    return node if isinstance(result, Tensor) and torch.equal(result.detach(), values) else None


def _input_location(node: Node, source: Node | None) -> Location:
    """The softmax or the module that computes the logits, with the user's line that passes them to the loss."""
    if source is None or (source.name not in _PROBABILITIES.producer and node.line is not None):
        return replace(node.where, module=source.module if source else None)
    return _producer_location(source)


def _producer_location(producer: Node) -> Location:
    """The call of a softmax, or the line that creates the module of torch that is called there."""
    creation_line = called_attribute_line(producer.line, _PRODUCER_MODULES)
    return add_line(producer.where, creation_line) if creation_line else producer.where


def bad() -> Setup:
    """Logits as the input of the NLL loss."""
    return classifier(loss_fn=nn.NLLLoss())


def good() -> Setup:
    """Log-probabilities as the input of the NLL loss."""
    return classifier(nn.LogSoftmax(dim=1), loss_fn=nn.NLLLoss())
