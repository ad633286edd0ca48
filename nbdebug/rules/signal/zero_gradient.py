"""G416: the gradient of a parameter with a path to the loss is exactly zero."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nbdebug.autograd import Graph
from nbdebug.autograd.factors import first_factors
from nbdebug.autograd.graph import Node
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import parameter_not_reached
from nbdebug.measurements.gradients import EARLY_STEPS, BlockedGradient, EarlyGradient
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names
from nbdebug.measurements.replaced_outputs import UnchangedLoss
from nbdebug.rule_engine.expression_edits import leave_out_call, take_last_step
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.initialization import initialization_line
from nbdebug.source.edits import line_changes
from nbdebug.source.location import get_location

_CONSEQUENCES = (
    *("G401", "G403", "G414", "M307", "M306", "G415", "T601", "T607", "T608", "T610", "M314"),
    *("O501", "O502", "E709"),  # without a gradient, only weight decay moves the weights
)


@rule("G416", "error")
def zero_gradient(
    setup: Setup,
    early_steps: list[EarlyGradient] | NotChecked,
    blocked_gradients: list[BlockedGradient] | NotChecked,
    loss: Tensor | NotChecked,
    unchanged_loss: UnchangedLoss | NotChecked | None,
    loop: LoopSummary | NotChecked,
    graph: Graph | NotChecked,
    *,
    least: int = 5,
) -> Iterator[Finding]:
    """Parameters have a path to the loss, but their gradient is exactly zero.

    ## What it does
    Lists modules whose parameters all get a gradient of exactly zero from each of the first batches, with the operation
    that turns a gradient into zeros: inactive units, a dropout that drops everything, a clamp, a rounding, a random
    draw, a softmax over one value, a factor of zero, or two terms whose gradients cancel.

    ## Why it matters
    The graph is connected and no error is raised, but nothing before that operation ever learns.

    ## How it is measured
    Over up to four batches, with a step of gradient descent on a copy of the weights after each, so that parameters
    hidden behind a layer of zeros only at the first step (residual branches, adapters) are not reported. The named
    operation is the nearest one on the way to the loss that receives a nonzero gradient and passes on only zeros.
    Biases that are all negative are named as the cause if a gradient passes once they are set to zero. If no parameter
    gets a gradient and the loss is zero, as with a margin that all samples satisfy, it is a note, unless the loss
    contains infinite values and is the same for random outputs, as after a mask of the wrong sign. A part whose
    siblings in the same list have a gradient is also a note if no operation blocks it, as for an expert that no sample
    of these batches selects. A watched loop in which the parameter gets a gradient withdraws the finding. In your loop,
    exactly: no parameter had a nonzero gradient in ``least`` = 5 or more inspected steps, although the backward pass
    reached the output of the model.

    ## How to fix
    Change the operation at the reported line: use a smooth or leaky one, a dropout rate below one, or a range that the
    values stay in.

    ## When to ignore
    When the part is used only by rare samples, none of which is in the first batches.

    ## References
    Lu et al. 2019, arXiv:1903.06733: dying ReLU and initialization. PyTorch notes on autograd mechanics.
    """
    if isinstance(loop, LoopSummary):
        yield from _loop_findings(loop, least)
        return
    drops_all = any(isinstance(part, _DropoutNd) and part.p >= 1 for part in setup.model.modules())
    if isinstance(early_steps, NotChecked):
        raise early_steps
    if isinstance(blocked_gradients, NotChecked):
        raise blocked_gradients
    if isinstance(loss, NotChecked):
        raise loss
    if isinstance(unchanged_loss, UnchangedLoss) and blocked_gradients:
        yield _finding_of_unchanged_loss(unchanged_loss, blocked_gradients)
        return
    has_gradient = any(item.max_gradient > 0 for item in early_steps)
    is_solved = not has_gradient and abs(float(loss)) < 1e-12
    reached = {_pattern(item.entry.name) for item in early_steps if item.max_gradient > 0}
    for item in blocked_gradients:
        if item.selection is not None or item.is_recurrence:
            yield _finding_of_direction(item)
            continue
        is_unselected = item.node is None and all(_pattern(entry.name) in reached for entry in item.entries)
        setup_fix = "dropout=0" if drops_all else _initialize_factors(graph, blocked_gradients)
        finding = replace(_finding(setup, graph, item, is_solved, is_unselected), setup_fix=setup_fix)
        yield finding if has_gradient or is_solved else _without_rounding(finding, item.node)


def _initialize_factors(graph: Graph | NotChecked, blocked: list[BlockedGradient]) -> str:
    """Return code that initializes the first of several matrices of zeros in each module; "" if no module has any.

    The gradient of a factor of a product is zero while the other one is, so that one of the two suffices.
    """
    groups: dict[str, list[ParameterEntry]] = {}
    for entry in (entry for item in blocked for entry in item.entries):
        if entry.parameter.dim() > 1 and not bool(entry.parameter.any()):
            groups.setdefault(entry.name.rpartition(".")[0], []).append(entry)
    firsts = [entry for group in groups.values() if len(group) > 1 for entry in _first_factors(graph, group)]
    return "\n".join(f"nn.init.kaiming_uniform_(model.get_parameter({entry.name!r}), a=5**0.5)" for entry in firsts)


def _first_factors(graph: Graph | NotChecked, entries: list[ParameterEntry]) -> list[ParameterEntry]:
    """Return the matrices that the inputs meet first, of each product of two; the first of all if that is unknown."""
    positions = [] if isinstance(graph, NotChecked) else first_factors(graph, [entry.parameter for entry in entries])
    return [entries[position] for position in positions] or entries[:1]


def _loop_findings(loop: LoopSummary, min_steps: int) -> Iterator[Finding]:
    """Report a loop in which no parameter ever had a nonzero gradient, although the backward pass reached the model."""
    steps, alignment = loop.gradient_checks, loop.batch_alignment
    stops_before_output = alignment.steps_without_gradient >= max(min_steps, steps / 2)
    if loop.with_gradient or not (stops_before_output or (loop.with_any_gradient and steps >= min_steps)):
        return
    steps = alignment.steps_without_gradient if stops_before_output else steps
    cause = (
        "Either the derivative of an operation between the output and the loss is zero, such as that of a rounding, or "
        "two terms cancel, as in the difference of an output and itself."
    )
    fix = "Compute the loss from the output itself, without rounding, and detach what should be constant in it."
    if loop.loss_operands and loop.loss_operands.is_same:
        cause = "The output and the target of the loss are one tensor: the model writes into the target, or returns it."
        fix = "Pass the model a copy, target.clone(), and return what the model computes."
    cancels = (
        "The gradients of two terms cancel, as in the ratio of an output to itself, which is constant, or a factor of "
        "zero follows the last parameters."
    )
    yield Finding(
        message=f"The gradient of all parameters was exactly 0 in each of the {steps} inspected steps of your loop"
        + (": the loss gives the output of the model a gradient of zeros." if stops_before_output else "."),
        where=get_location(alignment.loss_line or loop.lines.get("loss") or loop.lines.get("backward")),
        cause=cause if stops_before_output else cancels,
        fix=fix
        if stops_before_output
        else "# detach what should be constant, such as the probabilities of the earlier policy",
        evidence={"steps": steps},
        explains=_CONSEQUENCES,
        aspect="loop",
    )


def _finding_of_unchanged_loss(unchanged: UnchangedLoss, ends: list[BlockedGradient]) -> Finding:
    """Report a loss that does not depend on what the model returns."""
    entries = [entry for end in ends for entry in end.entries]
    return Finding(
        message=f"The loss is exactly {unchanged.value:.4g} for each of {unchanged.draws} random outputs of the model, "
        f"and the gradient of {len(entries)} parameters is 0 in each of the first {EARLY_STEPS} steps "
        f"({format_names(entries)}): the loss does not depend on the output.",
        where=get_location(unchanged.infinite_line),
        cause="This line gives infinite values, which the loss then selects or cuts off.",
        fix="# mask with the other sign: +inf before a minimum, -inf before a maximum",
        evidence={"loss": unchanged.value, "draws": unchanged.draws, "parameters": [entry.name for entry in entries]},
        explains=_CONSEQUENCES,
        assumes=tuple(parameter_not_reached(entry.name) for entry in entries),
    )


def _pattern(name: str) -> str:
    """Return a name without its numbers, which siblings in a list share."""
    return re.sub(r"\d+", "*", name)


def _finding(
    setup: Setup, graph: Graph | NotChecked, end: BlockedGradient, is_solved: bool, is_unselected: bool
) -> Finding:
    matrices = [entry for entry in end.entries if entry.parameter.dim() > 1]
    is_zero = bool(matrices) and not any(bool(entry.parameter.any()) for entry in matrices)
    first = _first_factors(graph, matrices)[0] if is_zero else None
    last = end.entries[-1]
    module = (end.node.module if end.node else None) or last.module or None
    where = get_location(end.node.line if end.node else None, module, last.name)
    if first is not None:
        where = _place_of_values(setup, first)
    reason = "every batch gives such a gradient"
    if end.node:
        reason = f"the backward pass of the operation {end.node.name} returns " + (
            "gradients whose sum is zero" if end.cancels else "only zeros"
        )
    return Finding(
        message=f"The gradient of {len(end.entries)} parameters with a path to the loss is exactly 0 in each of the "
        f"first {EARLY_STEPS} steps ({format_names(end.entries)}): {reason}.",
        where=where,
        cause="The loss is zero on these batches."
        if is_solved
        else "Others of the same list have a gradient: no sample of these batches selected this part."
        if is_unselected
        else "All of these weights are zero, and the operation multiplies them, so that none gets a gradient."
        if is_zero
        else _cause_of_operation(end),
        fix="# these batches give nothing to learn from: check whether they are too easy"
        if is_solved
        else f"torch.nn.init.kaiming_uniform_(model.get_parameter({first.name!r}))   # one factor may stay at 0"
        if first is not None
        else _fix_for_operation(end),
        evidence={
            "parameters": [entry.name for entry in end.entries],
            "operation": end.node.name if end.node else None,
        },
        explains=() if is_solved or is_unselected else (*_CONSEQUENCES, "G416:loop"),
        assumes=tuple(parameter_not_reached(entry.name) for entry in end.entries),
        severity="note" if is_solved or is_unselected else None,
    )


def _place_of_values(setup: Setup, entry: ParameterEntry) -> Location:
    """Return the location of a parameter, with the line that set its values."""
    line = initialization_line(setup, entry.module, entry.name.rpartition(".")[2])
    return get_location(line, entry.module or None, entry.name)


def _finding_of_direction(end: BlockedGradient) -> Finding:
    """Report a direction of a recurrent layer that the loss does not read, or reads after one step only."""
    entry, is_step = end.entries[0], end.is_recurrence
    names, is_reverse = format_names(end.entries), end.entries[0].name.endswith("_reverse")
    direction = "reverse" if is_reverse else "forward"
    if is_step:
        reason = "the loss reads this direction after one step only, before the state is used"
        cause = "At the last position, the reverse direction has read only the last step of the sequence."
    else:
        reason = f"no gradient reaches the output of the {direction} direction"
        cause = "This line selects the output of the other direction."
    if is_step and not is_reverse:
        cause = "The loss reads the output at the first position, or each sequence has one step."
    return Finding(
        message=f"The gradient of {names} is exactly 0 in each of the first {EARLY_STEPS} steps: {reason}.",
        where=get_location(end.selection.line if end.selection else None, entry.module or None, entry.name),
        cause=cause,
        fix="output, h_n = rnn(x)   # h_n[0] for an LSTM, whose second output is (h_n, c_n)\n"
        "x = torch.cat([h_n[-2], h_n[-1]], dim=1)   # the last states of both directions"
        if is_reverse or not is_step
        else "x = output[:, -1]   # the output after the last step",
        edits=take_last_step(end.selection.line) if end.selection and is_step and not is_reverse else (),
        evidence={"parameters": [entry.name for entry in end.entries], "direction": direction},
        explains=("M306", "M311", "T610"),
        assumes=tuple(parameter_not_reached(entry.name) for entry in end.entries),
        severity=("warning" if is_step else "error") if end.selection else "note",
    )


def _without_rounding(finding: Finding, node: Node | None) -> Finding:
    """Return the finding of an operation that rounds what all parameters compute: only the loss needs it, or nothing.

    Without it, the loss learns from the values themselves.
    """
    if node is None or node.name not in _ROUNDINGS:
        return finding
    name = node.name.lower()
    edits = leave_out_call(node.line, name)
    without = line_changes(edits)[0].added[0].strip() if edits else f"# leave out {name}() before the loss"
    fix = f"{without}   # or x + (x.{name}() - x).detach(), a straight-through gradient"
    return replace(finding, fix=fix, edits=edits)


def _cause_of_operation(end: BlockedGradient) -> str:
    if end.cancels:
        return "The gradients of several terms cancel, as in the difference of an output and itself."
    if end.node is not None and end.node.name in _DRAWS:
        return "It draws random numbers. A draw passes no gradient to the parameters of its distribution."
    if end.node is None:
        return (
            "Either none of the operations that read these parameters passes a gradient for these batches, such as "
            "inactive ReLUs, or the gradients of several paths cancel."
        )
    if not end.biases and end.node.name in _LIMITS:
        return "All of its input values lie outside the limits of this operation, where its derivative is zero."
    if not end.biases:
        return "The derivative of this operation is zero at all of its input values."
    lowest = min(end.biases, key=lambda entry: float(entry.parameter.max()))
    values = lowest.parameter.detach()
    low, high = (f"{float(value):.3g}" for value in (values.min(), values.max()))
    level = low if low == high else f"{low} to {high}"
    return (
        f"The biases before it are so far below zero that its inputs are negative: {lowest.name} is {level}. With "
        "biases of 0, a gradient passes."
    )


def _fix_for_operation(end: BlockedGradient) -> str:
    name = end.node.name if end.node else ""
    if end.cancels:
        return (
            "Detach the term that should be constant. Old log-probabilities, for example, are stored when the data are "
            "collected."
        )
    if not name:
        return "Follow the output to the loss, and print the gradient of each value on the way: x.retain_grad()."
    if name in _DRAWS:
        return "x = mean + std * torch.randn_like(std)   # for a normal distribution; others have rsample()"
    if end.biases:
        modules = ", ".join(member_code(entry.name) for entry in end.biases[:3])
        return f"torch.nn.init.zeros_(bias)   # for {modules}; only the last layer may start with a prior"
    if name in _LIMITS:
        return "if not self.training:   # train on the unlimited values\n    x = x.clamp(low, high)"
    if name in ("Threshold", "Relu"):
        return "x = torch.nn.functional.leaky_relu(x)  # here; and scale the inputs"
    if name in _ROUNDINGS:
        return f"x = x + (x.{name.lower()}() - x).detach()  # straight-through gradient"
    return "# remove the factor of zero in this line: a dropout rate of 1, a mask of zeros, a saturated value"


_ROUNDINGS = ("Round", "Sign", "Floor", "Ceil", "Trunc")
_DRAWS = ("Normal", "Bernoulli", "Poisson", "Binomial", "Exponential", "LogNormal", "Geometric", "Cauchy")
_LIMITS = ("Clamp", "ClampMin", "ClampMax", "Hardtanh")


class RoundingNetwork(nn.Module):
    """A classifier of 4 features whose hidden layer is rounded, so that its gradient is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of 3 classes."""
        logits: Tensor = self.head(torch.round(self.body(x)))
        return logits


def bad() -> Setup:
    """A hidden layer that is rounded."""
    return minimal_setup(RoundingNetwork(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A hidden layer that is not rounded."""
    return classifier()
