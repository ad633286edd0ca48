"""What else is part of the curves of a range test, said beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from nbdebug.setup import Setup
from nbdebug.tools.lr_range.dial import Dial
from nbdebug.tools.lr_range.feed import Feed
from nbdebug.tools.lr_range.result import Sweep

DROPOUTS = nn.modules.dropout._DropoutNd


def of_setup(setup: Setup, optimizers: Sequence[Optimizer], dial: Dial) -> Iterator[str]:
    """What the model and the optimizers bring in."""
    groups = [group for one in optimizers for group in one.param_groups]
    if any(one.p > 0 and one.training for one in setup.eager.modules() if isinstance(one, DROPOUTS)):
        yield "dropout is on"
    if dial.quantity != "weight_decay" and (decays := numbers(group.get("weight_decay") for group in groups)):
        yield f"a weight decay of {decays} takes part, and grows with the rate"
    if dial.quantity != "momentum" and (moments := numbers(group.get("momentum") for group in groups)):
        yield f"a momentum of {moments} takes part"
    if any("betas" in group for group in groups):
        yield "the averages of Adam's kind are still warming up in the first steps"
    if any(one.state for one in optimizers):
        yield "the optimizer has stepped before: its state is where each sweep starts"
    if not dial.is_even:
        yield "groups keep their ratios; the value is that of the first group"
    if setup.scheduler is not None:
        yield "the schedule is not stepped; the current rate is the highest that it has written"


def numbers(values: Iterator[Any]) -> str:
    """The values that are not zero, each once."""
    return " and ".join(dict.fromkeys(f"{float(one):.3g}" for one in values if one))


def of_sweeps(sweeps: Sequence[Sweep], steps: int, feeds: Sequence[Feed]) -> Iterator[str]:
    """What the course of the sweeps brought up."""
    if ends := [one.values[-1] if one.values else 0.0 for one in sweeps if one.ended == "not finite"]:
        yield f"in {len(ends)} of {len(sweeps)} sweeps the loss was not finite after {max(ends):.2g}: left out"
    if (rounds := max((one.rounds for one in feeds), default=1)) > 1:
        yield f"the batches are few: up to {rounds} rounds through them in {steps} steps"
    if skipped := sum(one.skipped for one in feeds):
        yield f"{skipped} batches of a single sample were left out, since the model takes statistics over the batch"
