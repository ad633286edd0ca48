"""One hyperparameter of all groups of all swept optimizers, set together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.options import Groups

Quantity = Literal["lr", "momentum", "weight_decay"]


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter of optimizers and each group's share of its value.

    ``initial`` is the value set by the user: that of the first group in which it is not zero. With a scheduler, which
    is not stepped in a sweep, it is the highest rate that the scheduler has written.
    """

    quantity: Quantity
    optimizers: tuple[Optimizer, ...]
    shares: tuple[tuple[float, ...], ...]
    initial: float
    scheduled: bool = False

    def set(self, value: float) -> None:
        """Set the hyperparameter of every group."""
        for optimizer, shares in zip(self.optimizers, self.shares, strict=True):
            for group, share in zip(optimizer.param_groups, shares, strict=True):
                _write_quantity(group, self.quantity, value * share)

    def group_values(self, value: float) -> list[list[float]]:
        """Return the value of each group of each optimizer at ``value``."""
        return [[value * share for share in shares] for shares in self.shares]

    @property
    def value(self) -> float:
        """The present value: the highest of all groups in proportion to their shares."""
        proportional_values = (
            read_quantity(group, self.quantity, self.scheduled) / share
            for optimizer, shares in zip(self.optimizers, self.shares, strict=True)
            for group, share in zip(optimizer.param_groups, shares, strict=True)
            if share
        )
        return max(proportional_values, default=0.0)

    @property
    def momentum(self) -> float:
        """The highest momentum (or first beta) of any group; 0 if there is none."""
        return max(
            read_quantity(group, "momentum", False) for optimizer in self.optimizers for group in optimizer.param_groups
        )

    @property
    def is_uniform(self) -> bool:
        """True if all groups have the same value."""
        return len({share for shares in self.shares for share in shares}) <= 1


def make_hyperparameter(
    optimizers: Sequence[Optimizer], quantity: Quantity, groups: Groups, scheduled: bool = False
) -> Hyperparameter:
    """Return the hyperparameter; raise SetupError if no group has it."""
    with_quantity = tuple(
        optimizer for optimizer in optimizers if any(_has_quantity(group, quantity) for group in optimizer.param_groups)
    )
    if not with_quantity:
        names = " and ".join(type(optimizer).__name__ for optimizer in optimizers)
        raise SetupError(f"optimizer is {names}, which has no {quantity}; expected one that has it. Sweep another one.")
    group_values = [
        [read_quantity(group, quantity, scheduled) for group in optimizer.param_groups] for optimizer in with_quantity
    ]
    reference = next((value for values in group_values for value in values if value), 0.0)
    is_uniform = groups == "same" or not reference
    shares = tuple(tuple(1.0 if is_uniform else value / reference for value in values) for values in group_values)
    return Hyperparameter(quantity, with_quantity, shares, reference, scheduled)


def _has_quantity(group: dict[str, Any], quantity: Quantity) -> bool:
    """Return whether a group has the quantity; the first beta counts as momentum."""
    return quantity in group or (quantity == "momentum" and "betas" in group)


def read_quantity(group: dict[str, Any], quantity: Quantity, scheduled: bool) -> float:
    """Return the quantity of a group, or 0; with a scheduler the highest rate that it has written."""
    if quantity == "momentum" and "momentum" not in group:
        return float(group.get("betas", (0.0,))[0])
    names: Iterable[str] = ("lr", "initial_lr", "max_lr") if quantity == "lr" and scheduled else (quantity,)
    return max((float(group[name]) for name in names if name in group), default=0.0)


def _write_quantity(group: dict[str, Any], quantity: Quantity, value: float) -> None:
    """Set the quantity of a group that has it; a tensor is modified in place."""
    if quantity == "momentum" and "momentum" not in group:
        if "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
        return
    if isinstance(tensor := group.get(quantity), Tensor):
        tensor.fill_(value)
    elif quantity in group:
        group[quantity] = value


def rates_code(rates: Sequence[float]) -> str:
    """Return code for one rate, or for a list if the groups differ."""
    texts = [f"{rate:.2g}" for rate in rates]
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"
