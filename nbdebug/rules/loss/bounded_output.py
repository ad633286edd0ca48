"""L209: the range of the last activation excludes some targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd import Graph, Node, Pattern
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments
from nbdebug.autograd.patterns import BOUNDED_NODES, FUNCTION_NAMES, ValueRange, get_value_range, suggest_removal
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor.conclusions import OPERAND_VALUES_UNCHANGED
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_sensitivity import Comparison
from nbdebug.measurements.output_range import OutputRange
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import regressor
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import known_origin_line
from nbdebug.setup.losses import LossKind
from nbdebug.source.location import get_location, get_related_lines

_FIX = "end in a linear layer, or scale the targets"
_FINAL_ACTIVATION = Pattern(BOUNDED_NODES, frozenset())
_EXPONENTIAL_OF_POSITIVE = Pattern(frozenset({"Exp", "Softplus", "Relu", "Sigmoid"}), frozenset({"Exp"}))
_CONSEQUENCES = (
    *("L208", "L210", "L218", "G401", "G402", "G403", "G415", "G409", "T601", "T606", "T607", "T608", "T610", "E709"),
    *("O502", "T614"),
)


@rule("L209", "error")
def bounded_output(
    setup: Setup,
    comparisons: list[Comparison] | NotChecked,
    output_range: OutputRange | NotChecked,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind | NotChecked,
    graph: Graph | NotChecked,
    loss_calls: list[TorchCall] | NotChecked,
    *,
    share: float = 0.01,
    slack: float = 0.01,
) -> Iterator[Finding]:
    """The last activation cannot produce some of the targets.

    ## What it does
    Determines the range of the activation that ends the model, such as [0, 1] for a sigmoid or [0, inf) for a ReLU, and
    counts the targets outside it. Reports logarithms of rates for a Poisson likelihood that are never negative, since
    they are outputs of an exponential, a softplus, a ReLU or a sigmoid.

    ## Why it matters
    The error on these targets can never reach zero. The outputs move to the end of their range, where the gradient
    vanishes, and the fit of the other targets suffers too.

    ## How it is measured
    On the autograd graph and the targets of the first batch, for squared, absolute and Huber errors. Reported when more
    than ``share`` of the targets lie outside the range by more than ``slack`` times the standard deviation of the
    targets. If the graph shows no such activation, or one whose range holds the targets, the range is measured, also
    for the binary cross-entropy of probabilities: random numbers replace the result of the last layer, at two scales,
    and a bound is where the output stops growing. So the range of two sigmoids in a row is [0.5, 0.73]. A bound that
    changes with the samples or with the results of earlier layers, as that of an attention which averages them, does
    not count.

    ## How to fix
    End in a linear layer, or scale the targets into the range.

    ## When to ignore
    When the targets outside the range are outliers that you intend to clip.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 6.2.2: linear units for conditional means.
    """
    if isinstance(graph, Graph) and not isinstance(loss_calls, NotChecked):
        yield from _positive_log_rate_findings(setup, graph, loss_calls)
    if isinstance(comparisons, NotChecked):
        raise comparisons
    last, findings = dict[str, Location](), list[Finding]()
    for comparison in comparisons:
        for node in _FINAL_ACTIVATION.search_upstream(comparison.nodes):
            call = FUNCTION_NAMES[node.name]
            last[call] = node.where
            fix = suggest_removal(node, {call, call.title(), "ReLU"}, _FIX)
            findings += _findings(comparison.target, get_value_range(node), call, node.where, fix, share, slack)
    yield from findings
    targets = [comparison.target for comparison in comparisons] or _probability_targets(first_pass, output, loss_kind)
    if not findings and targets and not isinstance(output_range, NotChecked):
        call = output_range.call if comparisons and not last else ""
        where = last.get(output_range.call, output_range.where)  # the second of two equal activations is too many
        yield from _findings(targets[0], output_range.values, call or "the head", where, f"# {_FIX}", share, slack)


def _positive_log_rate_findings(setup: Setup, graph: Graph, loss_calls: list[TorchCall]) -> Iterator[Finding]:
    """Report logarithms of rates that are made by an operation without negative results."""
    for call in loss_calls:
        arguments = bind_arguments(F.poisson_nll_loss, call) if call.name == "poisson_nll_loss" else None
        if arguments is None or not arguments["log_input"] or not isinstance(arguments["input"], Tensor):
            continue
        rates = arguments["input"].detach().exp()
        for producer, consumer in _EXPONENTIAL_OF_POSITIVE.find_matches(graph):
            result = consumer.get_saved("result")
            if isinstance(result, Tensor) and result.shape == rates.shape and torch.allclose(result.detach(), rates):
                yield _positive_log_rate_finding(setup, call, producer, float(arguments["input"].min()))
                break


def _positive_log_rate_finding(setup: Setup, call: TorchCall, activation: Node, lowest: float) -> Finding:
    """Report rates at the line of the loss that reads them as logarithms."""
    name, loss_line = FUNCTION_NAMES[activation.name], known_origin_line(setup, "loss") or call.line
    return Finding(
        message=f"The predictions for {call.name} are outputs of {name}, which are never negative. The loss expects "
        "logarithms of rates.",
        where=get_location(loss_line) if loss_line else activation.where,
        related=get_related_lines((activation.line, "the rates are made here")),
        cause="With log_input=True, the default, no rate below 1 can be predicted.",
        fix="loss_fn = nn.PoissonNLLLoss(log_input=False)",
        evidence={"activation": name, "lowest prediction": lowest},
        explains=_CONSEQUENCES,
    )


def _probability_targets(first_pass: ForwardPass, output: Any, loss_kind: LossKind | NotChecked) -> list[Tensor]:
    """Return the targets of a loss of probabilities, if there is one for each output."""
    target = first_pass.batch.target
    is_binary = loss_kind == "bce" and isinstance(output, Tensor) and isinstance(target, Tensor)
    return [target] if is_binary and target.shape == output.shape else []


def _findings(
    target: Tensor, value_range: ValueRange, call: str, where: Location, fix: str, share: float, slack: float
) -> Iterator[Finding]:
    """Report targets outside the range."""
    target = target.detach().float()
    margin = slack * float(target.std()) if target.numel() > 1 else 0.0
    is_outside = (target < value_range.low - margin) | (target > value_range.high + margin)
    if float(is_outside.float().mean()) <= share:
        return
    yield Finding(
        message=_outside_range_message(call, value_range, target, is_outside),
        where=where,
        cause=f"The model ends in {call}, so no weights can produce these targets.",
        fix=fix,
        evidence={
            "range": str(value_range),
            "share outside": float(is_outside.float().mean()),
            **_target_range(target),
        },
        explains=_CONSEQUENCES,
        assumes=(OPERAND_VALUES_UNCHANGED,),
    )


def _outside_range_message(call: str, value_range: ValueRange, target: Tensor, is_outside: Tensor) -> str:
    low, high = _target_range(target).values()
    share = float(is_outside.float().mean())
    return (
        f"{share:.0%} of the targets of the first batch lie outside {value_range}, the range of {call}: they range "
        f"from {low} to {high}."
    )


def _target_range(target: Tensor) -> dict[str, float]:
    return {"lowest target": round(float(target.min()), 4), "highest target": round(float(target.max()), 4)}


def bad() -> Setup:
    """A sigmoid head for targets of which half are negative."""
    return regressor(nn.Sigmoid())


def good() -> Setup:
    """The same model with a linear head."""
    return regressor()
