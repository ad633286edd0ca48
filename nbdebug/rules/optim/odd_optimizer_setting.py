"""O510: betas, momentum, eps or a group's setting outside what works."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from math import sqrt
from typing import Any

import torch

from nbdebug.finding import Finding
from nbdebug.graph.search import line_setting
from nbdebug.graph.source import where_of
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored

ALIASES = {"learning_rate": "lr", "rate": "lr", "wd": "weight_decay", "decay": "weight_decay", "beta": "betas"}
Odd = tuple[str, Any, str, str]


@rule("O510", "warning")
def odd_optimizer_setting(setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...]) -> Iterator[Finding]:
    """A setting of the optimizer lies outside what works.

    ## What it does
    Reads the settings of every parameter group: decay rates of the moments in the wrong order, momentum that never
    decays, an eps that is zero or that the dtype of the weights rounds to zero, a rate of zero that no scheduler will
    raise, and a key that the optimizer does not know.

    ## Why it matters
    These are accepted without a word. A misspelled key leaves the group at the default; moments in the wrong order make
    steps that do not settle; momentum of one adds up every gradient for ever; eps of zero divides zero by zero.

    ## How it is measured
    Exactly, by the groups. Adam's bound is that of its proof of convergence, beta1 < sqrt(beta2), which (0.9, 0.999),
    (0.9, 0.95), (0.5, 0.999) and (0, 0.9) keep. A key is a misspelling when it is an alias of one that the optimizer
    knows, or nearly its name; other keys, such as those that schedulers keep in a group, are left alone.

    ## How to fix
    Set the value that the message names.

    ## When to ignore
    When your own code reads the key, or raises the rate later.

    ## References
    Kingma and Ba 2015, arXiv:1412.6980, theorem 4.1; Reddi et al. 2018, arXiv:1904.09237, on beta1 < sqrt(beta2).
    """
    for place, optimizer in enumerate(optimizers):
        for number, group in enumerate(optimizer.param_groups):
            if not any(p.requires_grad for p in group["params"]):
                continue
            for odd in [*odd_values(group, setup.scheduler is not None), *odd_keys(group, optimizer.defaults)]:
                yield finding(setup, odd, place, number)


def finding(setup: Setup, odd: Odd, place: int, number: int) -> Finding:
    """One setting of one group."""
    key, value, expected, cause = odd
    line = line_setting(key, value, authored(setup))
    return Finding(
        where=where_of(line),
        message=f"{key} is {value!r} in group {number} of optimizer {place}; expected {expected}.",
        cause=cause,
        fix=f"optimizer.param_groups[{number}]  # set {key} where the optimizer is made: {expected}",
        evidence={"setting": key, "value": value, "group": number},
        explains=("O501", "O502", "T601", "T602", "T604"),
    )


def odd_values(group: dict[str, Any], scheduled: bool) -> Iterator[Odd]:
    """The values of one group that do not work."""
    lr, betas, momentum = float(group.get("lr", 1.0)), group.get("betas"), group.get("momentum")
    if lr < 0:
        yield "lr", lr, "a positive rate", "Steps go up the loss."
    if lr == 0 and not scheduled and "initial_lr" not in group:
        yield "lr", lr, "a positive rate", "No step changes anything, and no scheduler will raise the rate."
    if betas is not None and len(betas) == 2 and float(betas[0]) > sqrt(float(betas[1])):
        yield (
            "betas",
            tuple(map(float, betas)),
            "beta1 < sqrt(beta2), as (0.9, 0.999)",
            "The two are swapped, or mistyped.",
        )
    if momentum is not None and float(momentum) >= 1:
        yield "momentum", float(momentum), "below 1, as 0.9", "Old gradients never fade: the steps grow without bound."
    if momentum and group.get("dampening", 0) >= 1:
        yield "dampening", group["dampening"], "below 1, as 0", "Only the first gradient ever enters the momentum."
    yield from odd_eps(group)


def odd_eps(group: dict[str, Any]) -> Iterator[Odd]:
    """An eps that does not keep the division from zero."""
    eps = group.get("eps")
    if not isinstance(eps, float) or not {"betas", "alpha", "rho"} & group.keys():
        return
    kinds = {p.dtype for p in group["params"] if p.is_floating_point()}
    if lost := [kind for kind in kinds if float(torch.tensor(eps, dtype=kind)) == 0]:
        name = str(lost[0]).removeprefix("torch.")
        yield "eps", eps, f"above 0 in {name}, as 1e-4", f"It is 0 in {name}: a gradient of zero gives 0 / 0."


def odd_keys(group: dict[str, Any], defaults: dict[str, Any]) -> Iterator[Odd]:
    """The keys of one group that were meant to be another."""
    for key in sorted(group.keys() - defaults.keys() - {"params", "param_names", "initial_lr", "name"}):
        close = get_close_matches(key.lower(), defaults, n=1, cutoff=0.8)
        meant = ALIASES.get(key) or (close[0] if close else None)
        if meant in defaults and not key.endswith(f"_{meant}"):  # max_momentum, swa_lr: a scheduler's own
            said = f"The optimizer knows no {key!r}; {meant} stays at {group[meant]!r}."
            yield key, group[key], f"the key {meant!r}", said


def bad() -> Setup:
    """Adam with its two decay rates swapped."""
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.999, 0.9))
    return program(model, *points(), torch.nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """Adam as it is."""
    return classifier()
