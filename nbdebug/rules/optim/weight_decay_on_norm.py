"""O514: decay on biases and normalization weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.parameters import Entry, listed
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup


@rule("O514", "note")
def weight_decay_on_norm(optimizers: tuple[torch.optim.Optimizer, ...], parameters: list[Entry]) -> Iterator[Finding]:
    """Weight decay pulls biases and normalization weights to zero.

    ## What it does
    Looks for parameter groups with a weight decay that hold weights of layers together with biases, or with scales and
    shifts of normalization.

    ## Why it matters
    Decay keeps the weights of a layer small. A scale of normalization is meant to be near one, and a bias to be as
    large as the data ask for; both are few, so that decay saves no capacity there and can cost some accuracy.

    ## How it is measured
    Exactly: by the parameter groups. Parameters of one axis or none are counted as biases and scales. A group of
    nothing but those is left alone, since it was made on purpose.

    ## How to fix
    Give the optimizer two groups, the second without decay.

    ## When to ignore
    When the decay is small: the effect is small too.

    ## References
    He et al. 2018, arXiv:1812.01187, section 3.1 (no bias decay); documentation of torch.optim, parameter groups.
    """
    for i, optimizer in enumerate(optimizers):
        for j, group in enumerate(optimizer.param_groups):
            decay = float(group.get("weight_decay") or 0.0)
            held = [one for one in parameters if one.parameter.requires_grad and (i, j) in one.groups]
            small = [one for one in held if one.parameter.dim() <= 1]
            if decay > 0 and 0 < len(small) < len(held):
                yield finding(optimizer, decay, small, len(held))


def finding(optimizer: torch.optim.Optimizer, decay: float, small: list[Entry], held: int) -> Finding:
    """The biases and scales under decay, and the two groups to make instead."""
    return Finding(
        message=f"Weight decay {decay:.3g} also pulls {len(small)} of {held} parameters of one axis "
        f"to zero ({listed(small)}); expected 0 for biases and normalization.",
        where=Where(module=small[0].module, parameter=small[0].name),
        cause="All parameters are in one group.",
        fix="decayed = [p for p in model.parameters() if p.dim() > 1]\n"
        "plain = [p for p in model.parameters() if p.dim() <= 1]\n"
        f"optimizer = {type(optimizer).__name__}([{{'params': decayed, 'weight_decay': {decay:.3g}}}, "
        "{'params': plain, 'weight_decay': 0.0}], lr=" + f"{optimizer.param_groups[0].get('lr')})",
        evidence={"weight decay": decay, "parameters": [one.name for one in small]},
    )


def bad() -> Setup:
    """AdamW with its own decay, on all parameters."""
    model = network(3)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.AdamW(model.parameters()),))


def good() -> Setup:
    """Adam without decay."""
    return classifier()
