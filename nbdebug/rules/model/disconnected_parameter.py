"""M301: a trainable parameter has no path to the loss."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.autograd import DetachPoint, Graph
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.patterns import statement_without_calls
from nbdebug.autograd.tracing import INDICES_OF, REENTRANT_CHECKPOINT
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import parameter_not_reached
from nbdebug.measurements.call_operands import lost_result_call
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.input_usage import find_module_call_line, find_module_definition_line
from nbdebug.measurements.loss_places import early_return_line, is_returned, output_reading, producing_line
from nbdebug.measurements.lost_terms import LostTerms, find_lost_terms
from nbdebug.measurements.parameter_coverage import (
    ConditionalRouting,
    ParameterEntry,
    format_names,
    largest_part,
)
from nbdebug.measurements.sampled_gradients import SampledGradients
from nbdebug.measurements.unread_arguments import unread_argument_of_parameters
from nbdebug.rule_engine.expression_edits import bind_loop_variables
from nbdebug.rule_engine.loop_assumptions import ASPECT_OTHER_OUTPUT
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.statement_edits import collect_in_loop, enclosing_context, remove_context
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.rules.lost_terms import describe_lost_terms
from nbdebug.setup import Setup
from nbdebug.setup.losses import is_from_torch
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.search import call_name
from nbdebug.source.unused_results import (
    describe_unread,
    find_discarded_call,
    find_unused_result,
    keep_result,
    store_result,
    unread_results,
)

_DISCRETE_DRAWS = ("multinomial", "bernoulli", "binomial", "poisson")  # which have no rsample()
_WITHOUT_GRADIENTS = ("no_grad", "inference_mode")
_OF_OTHER_PARAMETERS = (
    *("O504", "O506:no step", "G409", "G414", "G416", "M315", "R904", "T601", "T606", "T607", "T608", "E709"),
    *("O502", "T610", "T614"),
)
_CONSEQUENCES = ("G414", "G416", "T601", "T606", "T608", "T610", "O502", "T614")


@rule("M301", "error")
def disconnected_parameter(
    setup: Setup,
    graph: Graph | NotChecked,
    first_pass: ForwardPass | NotChecked,
    unreached_parameters: list[ParameterEntry] | NotChecked,
    parameters: list[ParameterEntry],
    conditional_routing: ConditionalRouting | NotChecked,
    sampled_gradients: SampledGradients | NotChecked | None,
    loop: LoopSummary | NotChecked,
    *,
    least: int = 5,
) -> Iterator[Finding]:
    """A trainable parameter has no path to the loss.

    ## What it does
    Lists the parameters that require a gradient and that the loss does not depend on in any of the first batches. There
    is one finding for each call that cuts them off (detach(), .data, numpy(), argmax(), no_grad, a new tensor), or one
    for each part of the model that is never used (similar parts of a list together), at the line that calls it without
    using the result or that creates it. A warning is given for parameters of a random sample that the output depends on
    but that get no gradient from it, as in a variational autoencoder that calls ``sample()`` instead of ``rsample()``:
    only another term of the loss, if any, trains them.

    ## Why it matters
    Such a parameter never gets a gradient and never changes, while the loss may well decrease because the other
    parameters learn.

    ## How it is measured
    By the leaves of the autograd graphs of up to four batches, so that heads which alternate are not reported. The cut
    is searched among all calls that received a tensor with a gradient and returned one without. One of several experts
    whose siblings in the same list receive samples or tokens selected by an index was just not selected: reported as a
    note. For a sample, the parameters that get no gradient from the output are changed while the random numbers stay
    the same. The call is reported that receives other values then, returns others for other random numbers, and has no
    gradient; unless the model also computes the likelihood of the sample, by which the score function can train it.
    That needs no loss, so it is reported also where the labels of the loader do not fit the loss. In a watched loop,
    the leaves of its own backward passes are checked, until one belongs to the model; if the first one does not, the
    calls of one step are traced for the only one that cuts the graph between model and loss. So are those that had
    no gradient in any of ``least`` = 5 or more inspected steps although the optimizer that holds them stepped. If the
    parameters change nevertheless, your loop assigns them gradients of another copy, and nothing is reported.

    ## How to fix
    Remove the call that cuts the graph. If the part is meant to be frozen, set ``requires_grad_(False)``.

    ## When to ignore
    When the part is trained in another phase, by another loss.

    ## References
    PyTorch notes on autograd mechanics: locally disabling gradient computation.
    """
    disconnected = {entry.name for entry in unreached_parameters} if isinstance(unreached_parameters, list) else set()
    loop_findings = list(
        _findings_in_loop(loop, [entry for entry in parameters if entry.name not in disconnected], least)
    )
    yield from loop_findings
    is_sampled = isinstance(sampled_gradients, SampledGradients) and disconnected.isdisjoint(sampled_gradients.names)
    if isinstance(sampled_gradients, SampledGradients) and is_sampled:
        yield _sample_finding(sampled_gradients, parameters)
    if isinstance(graph, NotChecked) and not loop_findings and not is_sampled:  # the output alone shows a sample
        raise graph
    if (
        isinstance(graph, Graph)
        and isinstance(first_pass, ForwardPass)
        and isinstance(unreached_parameters, list)
        and isinstance(conditional_routing, ConditionalRouting)
    ):
        yield from _findings_in_batches(setup, graph, first_pass, unreached_parameters, parameters, conditional_routing)


def _findings_in_loop(
    loop: LoopSummary | NotChecked, parameters: list[ParameterEntry], min_steps: int
) -> Iterator[Finding]:
    if isinstance(loop, NotChecked):
        return
    if loop.backward_passes and not loop.reaches_model and not loop.changed:
        if loop.graph_cut and loop.copied_parameters + loop.other_parameters:
            yield _cut_finding(loop, loop.graph_cut)
        elif loop.copied_parameters:
            yield _model_copy_finding(loop)
    without_gradient = [entry for entry in parameters if entry.name in loop.never_with_gradient]
    if without_gradient and loop.gradient_checks >= min_steps and loop.with_gradient:
        yield _no_gradient_finding(loop, without_gradient, parameters)


def _findings_in_batches(
    setup: Setup,
    graph: Graph,
    first_pass: ForwardPass,
    disconnected: list[ParameterEntry],
    parameters: list[ParameterEntry],
    conditional_routing: ConditionalRouting,
) -> Iterator[Finding]:
    reached_ids = {id(leaf) for leaf in graph.leaves}
    if not any(id(entry.parameter) in reached_ids for entry in parameters):
        return
    remaining = {id(entry.parameter): entry for entry in disconnected}
    if setup.step_fn is None and remaining and (lost := find_lost_terms(setup, first_pass)):
        of_lost = [entry for entry in disconnected if lost.depends_on(entry)]
        if of_lost:
            yield _lost_term_finding(of_lost, lost, largest_part(of_lost[0], of_lost, parameters))
        for entry in of_lost:
            del remaining[id(entry.parameter)]
    yield from _detached_findings(first_pass, remaining, parameters)
    if unselected := [entry for entry in remaining.values() if conditional_routing.may_reach(entry.module)]:
        unrouted = _finding(
            unselected, "no sample is routed to them", None, "No sample of these batches was routed to them.", ""
        )
        yield replace(unrouted, message=_unselected_message(unselected), severity="note")
    groups: dict[str, list[tuple[str, ParameterEntry]]] = {}
    for entry in remaining.values():
        if entry not in unselected:
            path = largest_part(entry, list(remaining.values()), parameters)
            groups.setdefault(re.sub(r"\d+", "*", path), []).append((path, entry))
    for similar in groups.values():
        path = similar[0][0]
        ignored = _lost_by_loss(setup, graph, first_pass, similar[0][1])
        unused = ignored or _unused_part(setup, first_pass, path, [entry.parameter for _, entry in similar])
        finding = _finding([entry for _, entry in similar], *unused, path)
        edits = collect_in_loop(unused[1]) or _stored_result_edits(unused[1], unused[3])
        # A loss of torch takes one output, and the loop may compute other losses of the others.
        is_open = ignored is not None and is_from_torch(setup.loss_fn)
        yield replace(finding, edits=edits, aspect=ASPECT_OTHER_OUTPUT if is_open else "")


def _detached_findings(
    first_pass: ForwardPass, remaining: dict[int, ParameterEntry], parameters: list[ParameterEntry]
) -> Iterator[Finding]:
    """Findings for each line that cuts off parameters, which are removed from ``left``."""
    cuts: dict[tuple[SourceLine | None, str], tuple[DetachPoint, list[ParameterEntry]]] = {}
    for cut in reversed(first_pass.trace.detach_points):
        if detached := [remaining.pop(id(leaf)) for leaf in cut.leaves() if id(leaf) in remaining]:
            cuts.setdefault((_cutting_line(cut), cut.cause), (cut, []))[1].extend(detached)
    for cut, entries in cuts.values():
        ordered = sorted(entries, key=parameters.index)
        finding = _finding(
            ordered,
            f"{cut.call} {'detach' if cut.call.startswith(INDICES_OF) else 'detaches'} their output",
            _cutting_line(cut),
            *_detachment_advice(cut),
            path=largest_part(ordered[0], ordered, parameters),
        )
        yield replace(finding, edits=_enabling_edits(cut))


def _model_copy_finding(loop: LoopSummary) -> Finding:
    line = loop.new_leaf_line or loop.lines.get("backward")
    return Finding(
        message=f"None of the {loop.backward_passes} backward passes of your loop reached the model: they end in "
        f"{loop.copied_parameters} parameters of the same shapes that do not belong to it.",
        where=get_location(line),
        related=get_related_lines((loop.lines.get("backward"), "backward() reaches only the copy")),
        cause="The loss was computed with a copy of the model, but the optimizer holds the model itself.",
        fix=statement_without_calls(line, ("deepcopy",))
        or "loss = loss_fn(model(x), y)   # with the model that the optimizer was created for",
        evidence={"backward passes": loop.backward_passes, "parameters of a copy": loop.copied_parameters},
        explains=_OF_OTHER_PARAMETERS,
    )


def _cut_finding(loop: LoopSummary, cut: DetachPoint) -> Finding:
    """Report passes that end in the parameters of another network, since a call cuts the output of the model off."""
    count = loop.copied_parameters + loop.other_parameters
    cause, fix = _detachment_advice(cut)
    operation = f"{cut.python_conversion}()" if cut.python_conversion else cut.call
    return Finding(
        message=f"None of the {loop.backward_passes} backward passes of your loop reached the model: {operation} "
        f"cuts the graph between the model and the loss. The passes end in {count} parameters that do not belong to "
        "the model.",
        where=get_location(_cutting_line(cut)),
        related=get_related_lines((loop.lines.get("backward"), "backward() does not pass the cut")),
        cause=cause,
        fix=fix,
        edits=_enabling_edits(cut),
        evidence={"backward passes": loop.backward_passes, "cut by": operation, "other parameters": count},
        explains=_OF_OTHER_PARAMETERS,
    )


def _no_gradient_finding(loop: LoopSummary, entries: list[ParameterEntry], parameters: list[ParameterEntry]) -> Finding:
    return Finding(
        message=f"{format_names(entries)} had no gradient in any of {loop.gradient_checks} inspected steps of your "
        "loop, although the optimizer that holds them stepped: no backward pass reaches them.",
        where=Location(largest_part(entries[0], entries, parameters) or None, entries[0].name),
        cause="Their output is detached before the loss that should train them, or is not part of any loss.",
        fix="# remove detach(), item() and no_grad between this part and the loss that should train it",
        evidence={"parameters": [entry.name for entry in entries], "looks": loop.gradient_checks},
        explains=("O503", "G414", "G416", "M315", "T601", "T606", "T608", "O502", "T610", "T614"),
    )


def _sample_finding(sampled: SampledGradients, parameters: list[ParameterEntry]) -> Finding:
    entries, call, subject = list(sampled.parameters), sampled.call, sampled.output or "the output"
    return Finding(
        message=f"{subject[0].upper()}{subject[1:]} depends on {format_names(entries)} through a random sample "
        f"({call.name}), but no gradient from {subject} reaches them: changing them changes {subject}, and its "
        "gradient with respect to them is zero.",
        where=replace(call.where, module=call.where.module or largest_part(entries[0], entries, parameters) or None),
        cause="Drawing a sample from a distribution passes no gradient on to the parameters of the distribution.",
        fix="Replace the drawn classes or flags by torch.nn.functional.gumbel_softmax(logits, hard=True), or train by "
        "the log-probability of the sample."
        if call.name in _DISCRETE_DRAWS
        else "sample = distribution.rsample()   # or: mean + std * torch.randn_like(std)",
        evidence={"parameters": list(sampled.names), "call": call.name},
        explains=(*_CONSEQUENCES, "E701", "G401", "G403", "G409", "G415", "L218", "M306", "M307"),
        severity="warning",
    )


def _unselected_message(entries: list[ParameterEntry]) -> str:
    return f"No sample of the first batches was routed to {format_names(entries)}, so they have not been trained yet."


def _detachment_advice(cut: DetachPoint) -> tuple[str, str]:
    if conversion := cut.python_conversion:
        return (
            f"{conversion}() takes the values out of torch, so no gradient flows back through what is computed from "
            "them.",
            f"# compute with torch functions what is computed here from the result of {conversion}()",
        )
    if cut.call.startswith(INDICES_OF):
        return f"No gradient flows back through {cut.call}.", "# use the values that this call returns with the indices"
    if cut.call == REENTRANT_CHECKPOINT:
        return (
            "A reentrant checkpoint repeats its pass only if one of its inputs requires a gradient; the data do not.",
            "output = checkpoint(function, x, use_reentrant=False)",
        )
    return (
        f"No gradient flows back through {cut.call}.",
        statement_without_calls(cut.line, (cut.cause,)) or f"# remove {cut.cause} from this line",
    )


def _enabling_edits(cut: DetachPoint) -> tuple[Edit, ...]:
    """Return the removal of the block or the decorator that turns gradients off."""
    return remove_context(_cutting_line(cut), _WITHOUT_GRADIENTS)


def _cutting_line(cut: DetachPoint) -> SourceLine | None:
    """Return the line of the cut; that of the block or the decorator around it if that turns gradients off."""
    return (enclosing_context(cut.line, _WITHOUT_GRADIENTS) if cut.cause == "no_grad" else None) or cut.line


def _lost_term_finding(entries: list[ParameterEntry], lost: LostTerms, path: str) -> Finding:
    """Report parts whose terms the loss computes and loses, as a loop that assigns each term to one variable does."""
    loss = describe_lost_terms(lost)
    finding = _finding(entries, loss.reason, loss.line, loss.cause, loss.fix, path)
    return replace(finding, edits=loss.edits, related=loss.related)


def _lost_by_loss(
    setup: Setup, graph: Graph, first_pass: ForwardPass, entry: ParameterEntry
) -> tuple[str, SourceLine | None, str, str] | None:
    """Reason, line, cause and fix for a part whose result the model returns, and the loss ignores."""
    if setup.step_fn is not None or not is_returned(first_pass, entry):
        return None
    reason = "the model returns their output, but the loss does not use it"
    if early_line := early_return_line(setup, first_pass):
        cause = "The loss returns in the first round of its loop over the outputs."
        return reason, early_line, cause, "return total   # after the loop"
    reading = output_reading(first_pass, graph)
    if reading and reading.count > 1 and reading.line.function == "<lambda>":
        cause = (
            f"Line {reading.line.present.number} reads the same part of the output {reading.count} times: a function "
            "that a loop makes sees the last value of the loop's variable."
        )
        return (
            reason,
            reading.line,
            cause,
            describe_edits(bind_loop_variables(reading.line))
            or "Bind the loop's variable as a default value of an argument of the function: key=key.",
        )
    line = reading.line if reading else producing_line(graph)
    cause = "The loss is computed from only a part of the output."
    return reason, line, cause, "Add a term for this output to the loss, or remove the part that computes it."


def _unused_part(
    setup: Setup, first_pass: ForwardPass, path: str, tensors: list[Tensor]
) -> tuple[str, SourceLine | None, str, str]:
    """Reason, line, cause and fix for a part that is called without using the result, or never called."""
    is_called = bool(path) and path in first_pass.trace.call_counts
    reason = f"no gradient of the loss reaches {'their output' if is_called else 'what is computed from them'}"
    losing_call = call_line = losing_line = None
    if setup.step_fn is None:
        losing_call = lost_result_call(setup, first_pass.batch, tensors)
        call_line = find_module_call_line(setup, first_pass.batch, path) if is_called else None
        losing_line = find_unused_result(call_line) if call_line else None
        if losing_line is None and (unread := unread_argument_of_parameters(setup, first_pass.batch, tensors)):
            return reason, unread.find_line(setup.eager_model), unread.describe_cause(), unread.describe_fix()
    losing_line = losing_line or (losing_call.line if losing_call else None)
    if losing_line or (is_called and setup.step_fn is None):
        if call_line and (names := unread_results(call_line)):
            is_recurrent = isinstance(setup.eager_model.get_submodule(path), (nn.RNNBase, nn.RNNCellBase))
            return reason, losing_line or call_line, *describe_unread(path, names, is_state=is_recurrent)
        lost = "Their module is called, but its result" if is_called else "The result of this line"
        cause = _describe_discarded(losing_call, losing_line) or (
            f"{lost} is lost, or used in a way that passes no gradient."
        )
        fix = _stored_result(losing_call, losing_line) or (
            "# use the values of this result; argmax, indices, rounding and comparisons pass no gradient"
        )
        return reason, losing_line or call_line, cause, fix
    line = find_module_definition_line(setup.eager_model, path)
    cause = (
        "The forward pass never calls their module. If your loop calls it, a detach() or no_grad() separates it from "
        "the loss."
    )
    fix = f"# use {path or 'it'} in forward, or remove it; if your loop calls it, remove the detach() before the loss"
    return "the forward pass never uses them", line, cause, fix


def _discarded_call(call: TorchCall | None, line: SourceLine | None) -> ast.Call | None:
    """Return the statement of a line if it is the torch call whose result nothing receives, and no more than that."""
    node = find_discarded_call(line) if line else None
    is_lost = call is not None and call.line is not None and line is not None and call.line.number == line.number
    return node if node and is_lost and call and call_name(node) == call.name else None


def _describe_discarded(call: TorchCall | None, line: SourceLine | None) -> str:
    if line is None or (node := _discarded_call(call, line)) is None:
        return ""
    shown = f"{ast.unparse(node.func)}({'...' if node.args or node.keywords else ''})"
    return f"`{shown}` returns a new tensor, and line {line.present.number} discards it."


def _stored_result(call: TorchCall | None, line: SourceLine | None) -> str:
    return store_result(line) if line and _discarded_call(call, line) else ""


def _stored_result_edits(line: SourceLine | None, fix: str) -> tuple[Edit, ...]:
    """Return the edit by which a line stores the result that it discards, if that is the fix."""
    return keep_result(line) if line is not None and fix == store_result(line) else ()


def _finding(
    entries: list[ParameterEntry], reason: str, line: SourceLine | None, cause: str, fix: str, path: str | None = None
) -> Finding:
    first = entries[0].name
    module = entries[0].module if path is None else path
    return Finding(
        message=f"Trainable parameters have no path to the loss: {format_names(entries)}. In every batch, {reason}.",
        where=get_location(line, module, first),
        cause=cause,
        fix=fix,
        evidence={
            "parameters": [entry.name for entry in entries],
            "values": sum(entry.parameter.numel() for entry in entries),
        },
        explains=("O503", *_CONSEQUENCES, "M315"),
        assumes=tuple(parameter_not_reached(entry.name) for entry in entries),
    )


class DetachedHiddenLayer(nn.Module):
    """A classifier of 4 features whose hidden layer is detached from the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of 3 classes."""
        hidden = torch.relu(self.body(x)).detach()
        logits: Tensor = self.head(hidden)
        return logits


def bad() -> Setup:
    """A hidden layer that is detached."""
    return minimal_setup(DetachedHiddenLayer(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A network without a detached layer."""
    return classifier()
