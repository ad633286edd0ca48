"""Targets that torch's losses do not take, such as 0 and 1 for a loss that expects -1 and 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor.conclusions import TARGET_VALUES_UNCHANGED
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import known_origin_line
from nbdebug.source.location import get_related_lines

_Arguments = dict[str, Any]
_CONSEQUENCES = (
    *("L207", "L208", "L209", "L211", "L213", "L214", "D101", "D106", "G401", "G412", "G416", "M307", "T601", "T602"),
    *("G405", "T603", "T604", "T606", "T607", "T608", "T610", "E706", "E709", "O501"),
)
_SUM_TOLERANCE = 0.02  # half precision needs it


@dataclass(frozen=True)
class _Domain:
    """The targets that a loss takes, how to convert others, and a mask over those of a call that are outside."""

    expected: str
    fix: str
    find_outside: Callable[[_Arguments], Tensor]


def _is_not_sign(call: _Arguments) -> Tensor:
    target: Tensor = call["target"]
    return target.float().abs() != 1


def _is_outside_unit(call: _Arguments) -> Tensor:
    target: Tensor = call["target"]
    return (target < 0) | (target > 1)


def _is_no_index_list(call: _Arguments) -> Tensor:
    """Mark the targets of samples that name a class twice before the first -1, as columns of 0 and 1 do."""
    values: Tensor = call["target"]
    target = values.reshape(-1, values.shape[-1] if values.dim() else 1)
    is_listed = (target >= 0).cumprod(1).bool()
    unlisted = -1 - torch.arange(target.shape[1], device=target.device)  # all different, and no class
    ordered = torch.where(is_listed, target, unlisted).sort(1).values
    repeats = (ordered[:, 1:] == ordered[:, :-1]).any(1, keepdim=True)
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


_SIGNS = _Domain("-1 and 1", "target = 2 * target - 1   # 0 and 1 become -1 and 1", _is_not_sign)
_DISTRIBUTION = "F.kl_div(F.log_softmax(logits, dim=1), probabilities, reduction='batchmean')"
_DOMAINS: dict[Callable[..., Any], _Domain] = {
    F.cosine_embedding_loss: _SIGNS,
    F.hinge_embedding_loss: _SIGNS,
    F.margin_ranking_loss: _SIGNS,
    F.soft_margin_loss: _SIGNS,
    F.multilabel_soft_margin_loss: _Domain("0 and 1", "target = (target > 0).float()", _is_outside_unit),
    F.multilabel_margin_loss: _Domain(
        "class indices, each once, then -1",
        "loss_fn = nn.MultiLabelSoftMarginLoss()   # takes columns of 0 and 1",
        _is_no_index_list,
    ),
    F.poisson_nll_loss: _Domain(
        "counts", "Pass the counts as they are, neither standardized nor as logarithms.", _is_negative_count
    ),
    F.kl_div: _Domain("probabilities (their logarithms, if log_target=True)", _DISTRIBUTION, _is_no_probability),
}
_NAMES = {function.__name__: function for function in _DOMAINS}


def target_domain_findings(setup: Setup, loss_calls: list[TorchCall], share: float) -> Iterator[Finding]:
    """Yield a finding for each call of a loss of which more than a share of the targets is outside its domain."""
    for call in loss_calls:
        function = _NAMES.get(call.name)
        arguments = bind_arguments(function, call) if function else None
        if function is None or arguments is None or not isinstance(arguments["target"], Tensor):
            continue
        is_outside = _DOMAINS[function].find_outside(arguments)
        if is_outside.numel() and float(is_outside.float().mean()) > share:
            where = _get_place(loss_calls, arguments["target"])
            yield _outside_finding(setup, call, _DOMAINS[function], arguments, is_outside, where)


def _get_place(loss_calls: list[TorchCall], values: Tensor) -> Location:
    """Return the place that makes the values: a call before the loss, or the data, whose place is empty."""
    makers = [call for call in loss_calls if any(values is made for made in call.outputs)]
    return makers[-1].where if makers else Location()


def _outside_finding(
    setup: Setup, call: TorchCall, domain: _Domain, arguments: _Arguments, is_outside: Tensor, where: Location
) -> Finding:
    values = arguments["target"].detach()[is_outside].float()
    share, low, high = float(is_outside.float().mean()), float(values.min()), float(values.max())
    span = f"are {low:.3g}" if low == high else f"range from {low:.3g} to {high:.3g}"
    loss_line = call.line or known_origin_line(setup, "loss")
    return Finding(
        message=f"{share:.0%} of the targets of {call.name} in the first batch {span}. "
        "The loss does not accept these values.",
        where=where,
        related=get_related_lines((loss_line, f"the loss expects {domain.expected}")),
        cause=f"{call.name} expects {domain.expected} as targets.",
        fix=_fix(domain, arguments),
        evidence={"loss": call.name, "share outside": share, "lowest": low, "highest": high},
        explains=_CONSEQUENCES,
        assumes=(TARGET_VALUES_UNCHANGED,),
    )


def _fix(domain: _Domain, arguments: _Arguments) -> str:
    """Return the fix for the values that the targets have."""
    target: Tensor = arguments["target"].detach().float()
    if domain is _SIGNS and not bool(((target == 0) | (target.abs() == 1)).all()):
        return "Pass targets of -1 and 1 only; for class indices or real values, use a loss that takes them."
    if domain.fix == _DISTRIBUTION and not arguments["log_target"] and bool((target <= 0).all()):
        return "F.kl_div(F.log_softmax(logits, dim=1), log_probabilities, reduction='batchmean', log_target=True)"
    return domain.fix
