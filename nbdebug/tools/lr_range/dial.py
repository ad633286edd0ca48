"""The dial: one quantity of all groups of all swept optimizers, turned together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.tools.lr_range.result import Quantity

Groups = Literal["scale", "same"]


@dataclass(frozen=True)
class Dial:
    """A quantity of optimizers and, by group, what share of the dial's value it has.

    ``current`` is the dial's value as the user has set it: that of the first group in which it is not zero. Under a
    schedule, which is not stepped in a sweep, a rate counts as high as the schedule has written it anywhere.
    """

    quantity: Quantity
    optimizers: tuple[Optimizer, ...]
    shares: tuple[tuple[float, ...], ...]
    current: float
    scheduled: bool = False

    def turn(self, value: float) -> None:
        """Sets the quantity of every group."""
        for optimizer, shares in zip(self.optimizers, self.shares, strict=True):
            for group, share in zip(optimizer.param_groups, shares, strict=True):
                write(group, self.quantity, value * share)

    def values(self, value: float) -> list[list[float]]:
        """What each group of each optimizer has when the dial stands at ``value``."""
        return [[value * share for share in shares] for shares in self.shares]

    @property
    def now(self) -> float:
        """Where the dial stands, by the highest of all groups in proportion to its share."""
        held = (
            read(group, self.quantity, self.scheduled) / share
            for optimizer, shares in zip(self.optimizers, self.shares, strict=True)
            for group, share in zip(optimizer.param_groups, shares, strict=True)
            if share
        )
        return max(held, default=0.0)

    @property
    def momentum(self) -> float:
        """The highest momentum of any group, or first beta of Adam's kind; 0 where there is none."""
        return max(read(group, "momentum", False) for one in self.optimizers for group in one.param_groups)

    @property
    def is_even(self) -> bool:
        """Whether all groups have the same value."""
        return len({share for shares in self.shares for share in shares}) <= 1


def dial(optimizers: Sequence[Optimizer], quantity: Quantity, groups: Groups, scheduled: bool = False) -> Dial:
    """The dial of a quantity; raises SetupError where no group has it."""
    held = tuple(one for one in optimizers if any(has(group, quantity) for group in one.param_groups))
    if not held:
        names = " and ".join(type(one).__name__ for one in optimizers)
        raise SetupError(f"optimizer is {names}, which has no {quantity}; expected one that has. Sweep another thing.")
    base = [[read(group, quantity, scheduled) for group in one.param_groups] for one in held]
    first = next((value for values in base for value in values if value), 0.0)
    even = groups == "same" or not first
    shares = tuple(tuple(1.0 if even else value / first for value in values) for values in base)
    return Dial(quantity, held, shares, first, scheduled)


def has(group: dict[str, Any], quantity: Quantity) -> bool:
    """Whether a group has the quantity; the first beta of Adam's kind is its momentum."""
    return quantity in group or (quantity == "momentum" and "betas" in group)


def read(group: dict[str, Any], quantity: Quantity, scheduled: bool) -> float:
    """The quantity of a group, 0 where it has none; of a scheduled rate the highest that the schedule has written."""
    if quantity == "momentum" and "momentum" not in group:
        return float(group.get("betas", (0.0,))[0])
    names: Iterable[str] = ("lr", "initial_lr", "max_lr") if quantity == "lr" and scheduled else (quantity,)
    return max((float(group[name]) for name in names if name in group), default=0.0)


def write(group: dict[str, Any], quantity: Quantity, value: float) -> None:
    """Sets the quantity of a group, where it has it; a tensor stays the same tensor."""
    if quantity == "momentum" and "momentum" not in group:
        if "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
        return
    if isinstance(now := group.get(quantity), Tensor):
        now.fill_(value)
    elif quantity in group:
        group[quantity] = value
