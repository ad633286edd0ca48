"""O517: steps smaller than the weights' dtype can represent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.parameters import listed
from nbdebug.evidence.rounded_step import Rounded
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.loop import Loop
from nbdebug.loop.lost import Moved
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points
from nbdebug.setup import Setup

CONSEQUENCES = ("G409", "G414", "O502", "T601", "T606", "T607", "T608", "T610", "T614")


@rule("O517", "error")
def update_lost_to_precision(
    setup: Setup,
    rounded_step: list[Rounded] | NotChecked,
    is_trained: bool | NotChecked,
    loop: Loop | NotChecked,
    *,
    lost: float = 0.5,
    least: int = 3,
) -> Iterator[Finding]:
    """The steps of the optimizer are smaller than the weights' dtype can represent.

    ## What it does
    For parameters that are kept in bfloat16 or float16, counts the values that have a gradient and that a step of the
    optimizer leaves as they are.

    ## Why it matters
    A bfloat16 has 8 significant bits: between 0.05 and the next number lie 0.00024. A smaller step is rounded away, at
    every step again, while gradients and learning rate look as they should.

    ## How it is measured
    By a step of a fresh optimizer with the same groups, on copies of the parameters in their dtype and in float32, at
    the highest rate of the schedule and with the sum that momentum comes to: later steps of Adam are smaller than this
    first one. It speaks of weights of which more than ``lost`` = half of the values that a float32 step moves stay:
    rounding to the nearest then loses more steps than it keeps. Biases and scales are not judged alone.
    In your own loop it compares up to 4,096 values of each such weight before and after each step that is looked at, of
    ``least`` = 3 at no less than half of the highest rate seen; a weight is named where at each of them most stayed.
    Optimizers from outside torch may keep what was lost, and are not checked. A model whose loss is already well under
    that of a constant answer is being fine-tuned: the few values that move may be enough for it, and it is a note.

    ## How to fix
    Keep the weights in float32 and compute under torch.autocast.

    ## When to ignore
    When another copy of the weights, in float32, is what the steps are summed in.

    ## References
    Micikevicius et al. 2017, arXiv:1710.03740, section 3.1: a master copy of the weights in float32. Zamirai et al.
    2020, arXiv:2010.06192: in bfloat16 alone it is the rounding of the updates that costs accuracy.
    """
    if isinstance(loop, Loop):
        found = in_loop(setup, loop, lost, least)
        yield from (replace(one, severity="note" if is_trained is True else None) for one in found)
    elif isinstance(rounded_step, NotChecked):
        raise rounded_step
    if not isinstance(rounded_step, NotChecked):
        yield from of_one_step(rounded_step, is_trained is True, lost)


def of_one_step(rounded_step: list[Rounded], is_trained: bool, lost: float) -> Iterator[Finding]:
    """What a fresh optimizer's first step leaves."""
    weights = [one for one in rounded_step if one.entry.parameter.dim() > 1 and one.asked]
    if rounded_step and not weights:
        raise NotChecked("no weights of fewer than 32 bits have a gradient to step by")
    if stuck := [one for one in weights if one.moved < (1 - lost) * one.asked]:
        yield replace(finding(stuck, len(weights)), severity="note" if is_trained else None)


def in_loop(setup: Setup, loop: Loop, lost: float, least: int) -> Iterator[Finding]:
    """What the steps of a run left."""
    at_rate = {name: fast(looks) for name, looks in loop.moved.items()}
    judged = {name: looks for name, looks in at_rate.items() if len(looks) >= least}
    if not judged:
        raise NotChecked("too few steps of weights of fewer than 32 bits were looked at in your loop")
    stuck = {n: looks for n, looks in judged.items() if all(one.moved < (1 - lost) * one.asked for one in looks)}
    if stuck:
        yield of_run(setup, stuck, len(judged))


def fast(looks: tuple[Moved, ...]) -> list[Moved]:
    """The looks at no less than half of the highest rate, at values that had a gradient."""
    highest = max(one.rate for one in looks)
    return [one for one in looks if one.rate >= highest / 2 and one.asked]


def of_run(setup: Setup, stuck: dict[str, list[Moved]], weights: int) -> Finding:
    """How many of the values that had a gradient moved."""
    shares = {name: sum(m.moved for m in looks) / sum(m.asked for m in looks) for name, looks in stuck.items()}
    name = min(shares, key=lambda one: shares[one])
    parameter = setup.eager.get_parameter(name)
    kind = str(parameter.dtype).removeprefix("torch.")
    return Finding(
        message=f"A step moved {shares[name]:.0%} of the values of {name} that had a gradient, over {len(stuck[name])} "
        f"steps; expected all. So it is in {len(stuck)} of {weights} weights.",
        where=Where(module=name.rpartition(".")[0] or None, parameter=name),
        cause=f"Weights in {kind} round away what is less than half of the distance to the next number.",
        fix="model = model.float()   # then, in the loop:\n"
        f"with torch.autocast(device_type={parameter.device.type!r}, dtype=torch.bfloat16):\n"
        "    loss = loss_fn(model(x), y)",
        evidence={name: {"share moved": share} for name, share in list(shares.items())[:8]},
        explains=CONSEQUENCES,
    )


def finding(stuck: list[Rounded], weights: int) -> Finding:
    """How many values stay where most do, and the step beside the distance between two numbers."""
    worst = min(stuck, key=lambda one: one.moved / one.asked)
    parameter = worst.entry.parameter
    kind = str(parameter.dtype).removeprefix("torch.")
    return Finding(
        message=f"A step moves {worst.moved / worst.asked:.0%} of {worst.asked:,} values of {worst.entry.name} that "
        f"have a gradient; expected all: the step is {worst.step:.2g}, and the next number of {kind} is "
        f"{worst.spacing:.2g} away. So it is in {len(stuck)} of {weights} weights.",
        where=Where(module=worst.entry.module, parameter=worst.entry.name),
        cause=f"Weights in {kind} round away what is less than half of that distance "
        f"({listed([one.entry for one in stuck])}).",
        fix="model = model.float()   # then, in the loop:\n"
        f"with torch.autocast(device_type={parameter.device.type!r}, dtype=torch.bfloat16):\n"
        "    loss = loss_fn(model(x), y)",
        evidence={one.entry.name: {"moved": one.moved, "asked": one.asked, "step": one.step} for one in stuck[:8]},
        explains=CONSEQUENCES,
    )


def half(rate: float) -> Setup:
    """Three classes in bfloat16, trained by Adam at a rate."""
    x, y = points()
    model = network(3).bfloat16()
    loader = DataLoader(TensorDataset(x.bfloat16(), y), batch_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))


def bad() -> Setup:
    """Small steps in bfloat16."""
    return half(1e-5)


def good() -> Setup:
    """Steps that bfloat16 can hold."""
    return half(1e-2)
