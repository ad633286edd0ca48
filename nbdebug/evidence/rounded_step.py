"""What one step of the optimizer leaves of weights that are kept in few bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.gradients import Pull, of
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.exceptions import NotChecked

FULL = 4  # bytes of a float32
MOST_MOMENTUM = 0.999
PLAIN = {"foreach": False, "fused": False, "capturable": False}  # the loop that every device and dtype can take


@dataclass(frozen=True)
class Rounded:
    """One low-precision parameter after a step at its full rate: how many of its values should have moved, and did.

    ``step`` and ``spacing`` are medians: what the update asks for, and how far apart two numbers are at the weights.
    """

    entry: Entry
    asked: int
    moved: int
    step: float
    spacing: float


@measurement
def rounded_step(
    parameters: list[Entry], optimizers: tuple[torch.optim.Optimizer, ...], loss: Tensor, pulls: dict[str, Pull]
) -> list[Rounded]:
    """One step of optimizers like the user's, on copies of the parameters of fewer than 32 bits."""
    low = [one for one in parameters if one.groups and is_low(one.parameter) and one.name in pulls]
    if not low:
        return []
    found = of(loss, low, keep=True)
    gradients = {id(one.parameter): part for one in low if (part := found[one.name]) is not None}
    rounded: dict[int, Tensor] = {}
    exact: dict[int, Tensor] = {}
    for optimizer in optimizers:
        rounded.update(stepped(optimizer, gradients, lambda tensor: tensor))
        exact.update(stepped(optimizer, gradients, lambda tensor: tensor.float()))
    keys = {key: one for one in low if (key := id(one.parameter)) in gradients}
    return [compared(one, gradients[key], rounded[key], exact[key]) for key, one in keys.items()]


def is_low(parameter: Tensor) -> bool:
    """Whether a parameter is trained in fewer bits than float32 has."""
    return parameter.requires_grad and parameter.is_floating_point() and parameter.element_size() < FULL


def stepped(
    optimizer: torch.optim.Optimizer, gradients: dict[int, Tensor], cast: Callable[[Tensor], Tensor]
) -> dict[int, Tensor]:
    """Cast copies of those parameters that have a gradient, after one step of a fresh optimizer of the same groups."""
    if not type(optimizer).__module__.startswith("torch.optim") or isinstance(optimizer, torch.optim.LBFGS):
        raise NotChecked(f"{type(optimizer).__name__} may keep what a rounded step loses, or steps more than once")
    copies: dict[int, Tensor] = {}
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        held = {id(p): cast(p.detach().clone()).requires_grad_() for p in group["params"] if id(p) in gradients}
        for key, tensor in held.items():
            tensor.grad = cast(gradients[key])
        if held:
            groups.append({**group, "params": list(held.values()), **PLAIN, "lr": full_rate(group)})
        copies.update(held)
    if groups:
        maker: Any = type(optimizer)
        maker(groups, lr=groups[0]["lr"]).step()
    return {key: tensor.detach() for key, tensor in copies.items()}


def full_rate(group: dict[str, Any]) -> float:
    """The highest rate of a group: after any warm-up, and with all that momentum adds up."""
    rate = max(float(group["lr"]), float(group.get("initial_lr", 0.0)))
    return rate / (1 - min(float(group.get("momentum", 0.0)), MOST_MOMENTUM))


def compared(entry: Entry, gradient: Tensor, rounded: Tensor, exact: Tensor) -> Rounded:
    """Which values should have moved and did, of those that the step leaves finite: an eps of 0 breaks the others."""
    before = entry.parameter.detach()
    asked = (gradient != 0) & (exact != before.float()) & rounded.isfinite()
    moved = asked & (rounded != before)
    spacing = (torch.nextafter(before.abs(), torch.full_like(before, torch.inf)) - before.abs()).float()
    step = (exact - before.float()).abs()
    count = int(asked.sum())
    middle = (float(step[asked].median()), float(spacing[asked].median())) if count else (0.0, 0.0)
    return Rounded(entry, count, int(moved.sum()), *middle)
