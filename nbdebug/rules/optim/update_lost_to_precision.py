"""O517: steps smaller than the weights' dtype can represent."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import torch
from torch import Tensor, nn

from nbdebug.errors import NotChecked
from nbdebug.evidence.parameters import Entry
from nbdebug.finding import Finding, Severity, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup

Optimizers = tuple[torch.optim.Optimizer, ...]
# What one step is at most: the rate itself, by the sign of the gradient, or the rate times a sum of gradients.
BY_SIGN = (torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam)
BY_SIZE = (torch.optim.SGD,)
SEVERITIES: tuple[tuple[bool, Severity], ...] = ((True, "error"), (False, "warning"))


@rule("O517", "error")
def update_lost_to_precision(
    parameters: list[Entry],
    optimizers: Optimizers,
    first_gradients: dict[str, Tensor],
    *,
    most: float = 0.5,
) -> Iterator[Finding]:
    """The steps of the optimizer are so small that adding them changes nothing.

    ## What it does
    Adds the step that the optimizer takes to each weight in the dtype of that weight, and counts how often the sum is
    the weight itself, among weights that have a gradient.

    ## Why it matters
    A step of less than half the distance to the next number is rounded away, at every step anew, so that it never adds
    up. Gradients and rate look healthy, and most of the weights never move.

    ## How it is measured
    With the weights and gradients of the first batch, and the planned rate where a scheduler warms up. A step of the
    Adam family is the rate itself while all gradients agree, and one of SGD the rate times the gradient over
    (1 - momentum): if these are lost for more than ``most`` of the weights, most of the model cannot train, an error.
    Gradients that are noise around zero leave of Adam's step a share of sqrt((1 - beta1) / (1 + beta1)), 0.23 by
    default, by the variance of a moving average; if that is lost, it is a warning. Bfloat16 has 8 significant bits:
    next to 0.1, numbers are 0.0005 apart.

    ## How to fix
    Keep the weights in float32 and compute in low precision by ``torch.autocast``.

    ## When to ignore
    When the optimizer keeps a copy of the weights in float32, or rounds at random.

    ## References
    Micikevicius et al. 2018, arXiv:1710.03740, section 3.1: a float32 copy of the weights. Kingma and Ba 2015,
    arXiv:1412.6980, section 2.1: the step of Adam is bounded by its rate.
    """
    if not any(isinstance(one, BY_SIGN + BY_SIZE) for one in optimizers):
        raise NotChecked(f"the size of a step of {type(optimizers[0]).__name__} is not known beforehand")
    entries = [one for one in parameters if one.name in first_gradients]
    for agreement, severity in SEVERITIES:
        counted = [(lost(one, optimizers, first_gradients[one.name], agreement), one) for one in entries]
        gone, total = (sum(count[i] for count, _ in counted) for i in (0, 1))
        if total and gone > most * total:
            worst = max(counted, key=lambda row: row[0][0])[1]
            yield finding(worst, gone / total, optimizers[0], most, severity)
            return


def lost(entry: Entry, optimizers: Optimizers, gradient: Tensor, agreement: bool) -> tuple[int, int]:
    """How many weights of a parameter a step leaves as they are, and how many have a gradient."""
    step = step_of(entry, optimizers, gradient, agreement)
    if step is None:
        return 0, 0
    weights, has_gradient = entry.parameter.detach(), gradient != 0
    moved = (weights + step.to(weights.dtype)) != weights
    return int((~moved & has_gradient).sum()), int(has_gradient.sum())


def step_of(entry: Entry, optimizers: Optimizers, gradient: Tensor, agreement: bool) -> Tensor | None:
    """The step of a parameter when its gradients agree, or are noise; None where no known optimizer takes one."""
    if not entry.groups:
        return None
    place, number = entry.groups[0]
    optimizer = optimizers[place]
    group = optimizer.param_groups[number]
    rate = max(float(group["lr"]), float(group.get("initial_lr", 0.0)))
    if rate == 0 or not isinstance(optimizer, BY_SIGN + BY_SIZE):
        return None
    if isinstance(optimizer, BY_SIGN):
        beta = float(group["betas"][0])
        share = 1.0 if agreement else sqrt((1 - beta) / (1 + beta))
        return -rate * share * gradient.double().sign()
    return -rate * gradient.double() / max(1 - float(group.get("momentum", 0.0)), 1e-3)


def finding(worst: Entry, share: float, optimizer: torch.optim.Optimizer, most: float, severity: Severity) -> Finding:
    """Most of the weights, with the parameter that loses most of them."""
    kind = str(worst.parameter.dtype).removeprefix("torch.")
    rate = float(optimizer.param_groups[0]["lr"])
    step = "step along noisy gradients" if severity == "warning" else "step"
    return Finding(
        message=f"A {step} of {type(optimizer).__name__} at rate {rate:.3g} is rounded away for {share:.0%} "
        f"of the weights in {kind}, expected under {most:.0%}.",
        where=Where(worst.module or None, worst.name),
        cause=f"Numbers in {kind} are {torch.finfo(worst.parameter.dtype).eps:.2g} of their size apart: the step is "
        f"less than half of that.",
        fix="model.float()  # weights in float32\nwith torch.autocast(device_type, torch.bfloat16):\n    …",
        evidence={"share of weights": share, "dtype": kind, "rate": rate},
        explains=("G409", "G414", "O502", "T601", "T606", "T608", "T610", "T614"),
        severity=severity,
    )


def bad() -> Setup:
    """Weights in bfloat16 and Adam at a small rate."""
    model = network(3).bfloat16()
    x, y = points()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return program(model, x.bfloat16(), y, nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """The same in float32."""
    return classifier()
