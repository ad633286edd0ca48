"""L219: a loss gets targets, or predictions, that it is not defined for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd import Graph, Pattern
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments
from nbdebug.autograd.patterns import FUNCTION_NAMES
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor.conclusions import OUTPUT_VALUES_UNCHANGED, TARGET_VALUES_UNCHANGED
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import known_origin_line
from nbdebug.source.location import get_related_lines

_Arguments = dict[str, Any]
_CONSEQUENCES = (
    *("L207", "L208", "L209", "L211", "L213", "L214", "D101", "D106", "G401", "G412", "G416", "M307", "T601", "T602"),
    *("G405", "T603", "T604", "T606", "T607", "T608", "T610", "E706", "E709", "O501"),
)
_SUM_TOLERANCE = 0.02  # half precision needs it
_EXPONENTIAL_OF_POSITIVE = Pattern(frozenset({"Exp", "Softplus", "Relu", "Sigmoid"}), frozenset({"Exp"}))


@dataclass(frozen=True)
class _Domain:
    """The values that a loss takes in one of its arguments, how to convert others, and the test of a call.

    ``find_outside`` returns a mask over the values of the argument.
    """

    argument: str
    expected: str
    fix: str
    find_outside: Callable[[_Arguments], Tensor]


def _is_not_sign(call: _Arguments) -> Tensor:
    target: Tensor = call["target"]
    return target.abs() != 1


def _is_outside_unit(call: _Arguments) -> Tensor:
    target: Tensor = call["target"]
    return (target < 0) | (target > 1)


def _is_no_index_list(call: _Arguments) -> Tensor:
    """Mark the targets of samples that name a class twice before the first -1, as columns of 0 and 1 do."""
    values: Tensor = call["target"]
    target = values.reshape(-1, values.shape[-1])
    is_listed = (target >= 0).cumprod(1).bool()
    is_equal = (target[:, :, None] == target[:, None, :]) & is_listed[:, :, None] & is_listed[:, None, :]
    repeats = (is_equal.sum((1, 2)) > is_listed.sum(1))[:, None]
    return (is_listed & repeats).reshape(values.shape)


def _is_negative_count(call: _Arguments) -> Tensor:
    target: Tensor = call["target"]
    return target < 0


def _is_no_probability(call: _Arguments) -> Tensor:
    """Mark all targets of a divergence that sum to one over no axis, and negative ones."""
    target = call["target"].float()
    probabilities = target.exp() if call["log_target"] else target
    is_negative = (target > 0) if call["log_target"] else (target < 0)
    sums = [probabilities.sum(axis) for axis in range(target.dim())]
    sums += [probabilities.flatten(axis).sum(axis) for axis in range(target.dim())]
    is_distribution = any(float((total - 1).abs().mean()) <= _SUM_TOLERANCE for total in sums)
    return is_negative if is_distribution else torch.ones_like(target, dtype=torch.bool)


def _is_no_rate(call: _Arguments) -> Tensor:
    rates: Tensor = call["input"].detach()
    return torch.zeros_like(rates, dtype=torch.bool) if call["log_input"] else rates < 0


_SIGNS = _Domain("target", "-1 and 1", "target = 2 * target - 1   # 0 and 1 become -1 and 1", _is_not_sign)
_DISTRIBUTION = "F.kl_div(F.log_softmax(logits, dim=1), probabilities, reduction='batchmean')"
_DOMAINS: dict[Callable[..., Any], tuple[_Domain, ...]] = {
    F.cosine_embedding_loss: (_SIGNS,),
    F.hinge_embedding_loss: (_SIGNS,),
    F.margin_ranking_loss: (_SIGNS,),
    F.soft_margin_loss: (_SIGNS,),
    F.multilabel_soft_margin_loss: (_Domain("target", "0 and 1", "target = (target > 0).float()", _is_outside_unit),),
    F.multilabel_margin_loss: (
        _Domain(
            "target",
            "class indices, each once, then -1",
            "loss_fn = nn.MultiLabelSoftMarginLoss()   # takes columns of 0 and 1",
            _is_no_index_list,
        ),
    ),
    F.poisson_nll_loss: (
        _Domain(
            "target",
            "counts",
            "Pass the counts as they are, neither standardized nor as logarithms.",
            _is_negative_count,
        ),
        _Domain("input", "rates, if log_input=False", "loss_fn = nn.PoissonNLLLoss(log_input=True)", _is_no_rate),
    ),
    F.kl_div: (
        _Domain("target", "probabilities (their logarithms, if log_target=True)", _DISTRIBUTION, _is_no_probability),
    ),
}
_NAMES = {function.__name__: function for function in _DOMAINS}


@rule("L219", "error", origin="targets")
def target_outside_domain(
    setup: Setup, graph: Graph, loss_calls: list[TorchCall], *, share: float = 0.02
) -> Iterator[Finding]:
    """A loss gets targets, or predictions, that it is not defined for.

    ## What it does
    Checks the targets of torch's losses whose definition names their values: -1 and 1 for the margin losses on pairs
    and signs, class indices for the multi-label margin, counts for the Poisson likelihood, probabilities for the KL
    divergence. Checks that the predictions of the Poisson likelihood are rates or their logarithms, as ``log_input``
    says.

    ## Why it matters
    Torch does not check these values. A pair labeled 0 has no influence on a loss that expects -1 and 1, or pulls its
    samples together although they differ; columns of 0 and 1 are read as the indices of the classes 0 and 1.

    ## How it is measured
    On the arguments of the loss for the first batch, and in the first step of your own loop. Reported when more than
    ``share`` of the values are outside. A log-rate that ends in an exponential or a softplus is read from the graph.

    ## How to fix
    Convert the targets where they are made, or use a loss that takes them as they are.

    ## When to ignore
    When the loss is used beyond its definition on purpose.

    ## References
    Documentation of torch.nn.CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss, SoftMarginLoss,
    MultiLabelMarginLoss, PoissonNLLLoss and KLDivLoss.
    """
    for call in loss_calls:
        function = _NAMES.get(call.name)
        arguments = bind_arguments(function, call) if function else None
        if function is None or arguments is None or not isinstance(arguments["target"], Tensor):
            continue
        for domain in _DOMAINS[function]:
            is_outside = domain.find_outside(arguments)
            if is_outside.numel() and float(is_outside.float().mean()) > share:
                where = _get_place(loss_calls, call, arguments[domain.argument])
                yield _outside_finding(setup, call, domain, arguments, is_outside, where)
        if function is F.poisson_nll_loss and arguments["log_input"]:
            yield from _positive_log_rate_findings(graph, call, arguments["input"])


def _get_place(loss_calls: list[TorchCall], call: TorchCall, values: Tensor) -> Location:
    """Return the place that makes the values: a call before the loss, or the data, whose place is empty."""
    makers = [other for other in loss_calls if any(values is made for made in other.outputs)]
    return makers[-1].where if makers else Location()


def _outside_finding(
    setup: Setup, call: TorchCall, domain: _Domain, arguments: _Arguments, is_outside: Tensor, where: Location
) -> Finding:
    values = arguments[domain.argument].detach()[is_outside].float()
    share, low, high = float(is_outside.float().mean()), float(values.min()), float(values.max())
    span = f"are {low:.3g}" if low == high else f"range from {low:.3g} to {high:.3g}"
    role = "targets" if domain.argument == "target" else "predictions"
    loss_line = (call.line or known_origin_line(setup, "loss")) if role == "targets" else None
    return Finding(
        message=f"{share:.0%} of the {role} of {call.name} in the first batch {span}, which is outside its domain.",
        where=call.where if role == "predictions" else where,
        related=get_related_lines((loss_line, f"the loss expects {domain.expected}")),
        cause=f"{call.name} expects {domain.expected} as {role}.",
        fix=_fix(domain, arguments),
        evidence={"loss": call.name, "share outside": share, "lowest": low, "highest": high},
        explains=_CONSEQUENCES,
        assumes=(TARGET_VALUES_UNCHANGED if role == "targets" else OUTPUT_VALUES_UNCHANGED,),
    )


def _fix(domain: _Domain, arguments: _Arguments) -> str:
    """Return the fix for the values that the targets have."""
    target: Tensor = arguments["target"].detach().float()
    if domain is _SIGNS and not bool(((target == 0) | (target.abs() == 1)).all()):
        return "Pass targets of -1 and 1 only; for class indices or real values, use a loss that takes them."
    if domain.fix == _DISTRIBUTION and not arguments["log_target"] and bool((target <= 0).all()):
        return "F.kl_div(F.log_softmax(logits, dim=1), log_probabilities, reduction='batchmean', log_target=True)"
    return domain.fix


def _positive_log_rate_findings(graph: Graph, call: TorchCall, log_rates: Tensor) -> Iterator[Finding]:
    """Report a logarithm of a rate that is made by an operation without negative results."""
    rates = log_rates.detach().exp()
    for producer, consumer in _EXPONENTIAL_OF_POSITIVE.find_matches(graph):
        result = consumer.get_saved("result")
        if isinstance(result, Tensor) and result.shape == rates.shape and torch.allclose(result.detach(), rates):
            name = FUNCTION_NAMES[producer.name]
            yield Finding(
                message=f"The predictions for {call.name} are outputs of {name}, which are never negative. The loss "
                "expects logarithms of rates.",
                where=producer.where,
                cause="With log_input=True, the default, no rate below 1 can be predicted.",
                fix="loss_fn = nn.PoissonNLLLoss(log_input=False)",
                evidence={"activation": name, "lowest prediction": float(log_rates.min())},
                explains=_CONSEQUENCES,
            )
            return


def bad() -> Setup:
    """Targets 0 and 1 for a loss of -1 and 1."""
    x, y = points(2)
    return minimal_setup(network(1), x, y.float().unsqueeze(1), nn.SoftMarginLoss())


def good() -> Setup:
    """Targets -1 and 1."""
    x, y = points(2)
    return minimal_setup(network(1), x, 2 * y.float().unsqueeze(1) - 1, nn.SoftMarginLoss())
