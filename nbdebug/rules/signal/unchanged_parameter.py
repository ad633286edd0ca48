"""G414: a parameter in the optimizer that does not change although it has a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from nbdebug.evidence.parameters import Entry, listed
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import looks
from nbdebug.loop import Loop
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup


@rule("G414", "error")
def unchanged_parameter(
    setup: Setup, parameters: list[Entry], loop: Loop | NotChecked, record: Record | NotChecked, *, least: int = 5
) -> Iterator[Finding]:
    """A parameter that an optimizer holds has a gradient at every step, and does not change.

    ## What it does
    Keeps a ledger of your own loop: which parameters have a gradient that is not zero, and which have moved.

    ## Why it matters
    Its updates are lost on the way: written into a copy, rounded off, undone by something else. The rest of the model
    learns around it, so that the loss falls and nothing looks wrong.

    ## How it is measured
    Exactly: by sum and sum of squares in double precision, at the start, after eight steps and at the end. It takes
    ``least`` = 5 looks at which the gradient was there each time. Groups whose rate is zero are left alone, and so is
    a loop that never steps (O506). Of a loop that was only recorded: steps of exactly zero at all looks, and the same
    norm, mean and deviation at each.

    ## How to fix
    Change the parameter itself, in place: ``p.add_(...)`` under ``no_grad``; not a reshaped or cast copy of it.

    ## When to ignore
    When the weight is put back on purpose after each step.

    ## References
    Documentation of torch.Tensor.reshape: it returns a view if it can, and otherwise a copy.
    """
    seen = of_loop(loop, least) if isinstance(loop, Loop) else of_record(record, least)
    idle = [one for one in parameters if one.name in seen.idle and rate(setup, one) > 0]
    if idle:
        yield Finding(
            message=f"{listed(idle)} had a gradient at each of {seen.looks} looks and did not change in {seen.steps} "
            f"steps; {seen.changed} other parameters did.",
            where=Where(idle[0].module or None, idle[0].name),
            cause="The optimizer computes its update and writes it somewhere else, or something undoes it.",
            fix="with torch.no_grad():\n    p.add_(update.view_as(p))   # in place, on p itself; not on p.reshape(-1)",
            evidence={"parameters": [one.name for one in idle], "looks": seen.looks, "steps": seen.steps},
            explains=("G409", "T601", "T606", "T608", "E709"),
        )


@dataclass(frozen=True)
class Idle:
    """The parameters that had a gradient at every look and did not change, and how many others did."""

    idle: frozenset[str]
    changed: int
    looks: int
    steps: int


def of_loop(loop: Loop, least: int) -> Idle:
    """By the ledger of a loop; raises NotChecked where it says too little."""
    if loop.looks < least or not loop.steps:
        raise NotChecked(f"{loop.looks} steps of your loop were looked at, which are too few")
    if loop.emptied:
        raise NotChecked("gradients were cleared before the steps, which O506 follows")
    return Idle(loop.pulled - loop.changed, len(loop.changed), loop.looks, loop.steps)


def of_record(record: Record | NotChecked, least: int) -> Idle:
    """By the looks of a record; raises NotChecked where there are too few."""
    if isinstance(record, NotChecked):
        raise record
    pulls = looks(record, "gradient.norm", least=least)
    names = np.array(pulls.places)
    with np.errstate(invalid="ignore"):
        pulled = (np.nan_to_num(pulls.values) > 0).all(0) & np.isfinite(pulls.values).all(0)
        still = ~(looks(record, "update.norm", names, least).values > 0).any(0)
    for what in ("norm", "mean", "std"):
        still &= np.ptp(looks(record, f"weight.{what}", names, least).values, axis=0) == 0
    return Idle(frozenset(names[pulled & still].tolist()), int((~still).sum()), len(pulls.steps), record.steps)


def rate(setup: Setup, entry: Entry) -> float:
    """The highest learning rate that a parameter has in any group that holds it; 1 where no rate is known."""
    groups = [setup.optimizers[i].param_groups[j] for i, j in entry.groups]
    return max((float(group.get("lr", 1.0)) for group in groups), default=0.0)


class Flat(torch.optim.Optimizer):
    """Plain descent on flattened parameters."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Descends on what ``reshape`` gives, which is a copy where the weights do not lie in order."""
        for group in self.param_groups:
            for p in group["params"]:
                p.reshape(-1).sub_(group["lr"] * p.grad.reshape(-1))


def turned(contiguous: bool) -> Setup:
    """A network whose first weight is a transposed one."""
    model = network(3)
    layer: Any = model[0]
    weight = layer.weight.detach().t().contiguous().t()
    layer.weight = nn.Parameter(weight.contiguous() if contiguous else weight)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(Flat(model.parameters(), lr=0.1),))


def loop(setup: Setup) -> None:
    """A plain loop."""
    train(setup, 2)


def bad() -> Setup:
    """A weight that does not lie in order, so that the step goes into a copy."""
    return turned(contiguous=False)


def good() -> Setup:
    """One that does."""
    return turned(contiguous=True)


bad_loop = good_loop = loop
