"""O509: weight decay outweighs the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import torch
from torch import nn

from nbdebug.evidence.gradients import Pull
from nbdebug.evidence.parameters import Entry
from nbdebug.finding import Finding
from nbdebug.graph.search import line_setting
from nbdebug.graph.source import where_of
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored


@rule("O509", "warning")
def weight_decay_too_strong(
    setup: Setup,
    parameters: list[Entry],
    pulls: dict[str, Pull],
    optimizers: tuple[torch.optim.Optimizer, ...],
    *,
    times: float = 3.0,
    shrink: float = 0.05,
) -> Iterator[Finding]:
    """Weight decay outweighs the gradient of the loss from the first step on.

    ## What it does
    Compares, for each parameter group, the gradient of the first batch with what weight decay adds to it.

    ## Why it matters
    The optimizer then follows the decay: weights shrink to nothing whatever the data say, and the output with them.

    ## How it is measured
    By the norms over the whole group, at the weights that training begins with, where gradients are largest: it speaks
    when decay is more than ``times`` = 3 times the gradient. Under SGD, and where decay is apart from the gradient as
    in AdamW, a weight shrinks by rate times decay a step (over 1 less momentum), which is held against ``shrink`` =
    5 %: that halves it in 14 steps.

    ## How to fix
    A decay of 1e-4 to 1e-2 (to 0.1 for AdamW).

    ## When to ignore
    When the loss was divided by a large number and the decay was chosen for it.

    ## References
    Loshchilov and Hutter 2019, arXiv:1711.05101: decay that is part of the gradient, and decay apart from it.
    """
    for place, optimizer in enumerate(optimizers):
        for number, group in enumerate(optimizer.param_groups):
            held = [one for one in parameters if (place, number) in one.groups and one.name in pulls]
            if not group.get("weight_decay") or not held:
                continue
            if (share := taken(optimizer, group)) > shrink:
                yield finding(setup, group, number, f"takes {share:.2g} of each weight away in a step", "1e-4")
            elif group.get("decoupled_weight_decay") or isinstance(optimizer, torch.optim.AdamW):
                continue
            elif (ratio := outweighs(pulls, held, float(group["weight_decay"]))) > times:
                said = f"adds {ratio:.3g} times the gradient of the first batch"
                yield finding(setup, group, number, f"{said}; expected under {times:g} times", "1e-4")


def taken(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    """The share of a weight that one step takes away; 0 where the size of a step does not depend on the decay."""
    decoupled = group.get("decoupled_weight_decay") or isinstance(optimizer, torch.optim.AdamW)
    if not decoupled and not isinstance(optimizer, torch.optim.SGD):
        return 0.0
    return float(group["lr"]) * float(group["weight_decay"]) / max(1 - float(group.get("momentum") or 0), 1e-3)


def outweighs(pulls: dict[str, Pull], held: list[Entry], decay: float) -> float:
    """How many times the decay of some parameters is their gradient; 0 where there is no gradient."""
    weights = sum(float(one.parameter.detach().float().norm()) ** 2 for one in held)
    found = sum(pulls[one.name].norm ** 2 for one in held)
    return decay * sqrt(weights / found) if found else 0.0


def finding(setup: Setup, group: dict[str, Any], number: int, said: str, usual: str) -> Finding:
    """One group that decays too fast."""
    decay = group["weight_decay"]
    line = line_setting("weight_decay", decay, authored(setup))
    return Finding(
        message=f"weight_decay is {decay:g} in group {number}: it {said}.",
        where=where_of(line),
        cause="The optimizer follows the decay, not the data: weights go to zero.",
        fix=f"weight_decay={usual}",
        evidence={"weight_decay": decay, "group": number, "lr": group["lr"]},
        explains=("G409", "G411", "G415", "T601", "T606", "T607", "T608", "T610", "E706", "E709", "M307"),
    )


def decayed(decay: float) -> Setup:
    """A classifier trained by SGD with some decay."""
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def bad() -> Setup:
    """A decay of five."""
    return decayed(5.0)


def good() -> Setup:
    """A usual decay."""
    return decayed(5e-4)
