"""Optimizer groups that train each parameter, and their learning rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer


@dataclass(frozen=True)
class ParameterGroup:
    """One parameter group of one optimizer; ``optimizer`` and ``group`` are None if there is only one.

    ``rate`` is its current learning rate, None for an optimizer without one.
    """

    name: str
    optimizer: int | None
    group: int | None
    rate: float | None

    @property
    def owner(self) -> str:
        """The optimizer, numbered if there are several."""
        return self.name if self.optimizer is None else f"{self.name} #{self.optimizer}"

    def __str__(self) -> str:
        """Format like ``AdamW, group 1, lr 0.001``, or ``Adam #0, lr 0.1`` with several optimizers."""
        group = None if self.group is None else f"group {self.group}"
        rate = None if self.rate is None else f"lr {self.rate:.4g}"
        return ", ".join(filter(None, [self.owner, group, rate]))


def groups_by_parameter(optimizers: tuple[Optimizer, ...]) -> dict[nn.Parameter, tuple[ParameterGroup, ...]]:
    """Return the groups of each parameter."""
    result: dict[nn.Parameter, tuple[ParameterGroup, ...]] = {}
    for i, optimizer in enumerate(optimizers):
        for j, param_group in enumerate(optimizer.param_groups):
            rate = param_group.get("lr")
            group = ParameterGroup(
                type(optimizer).__name__,
                i if len(optimizers) > 1 else None,
                j if len(optimizer.param_groups) > 1 else None,
                float(rate) if rate is not None else None,
            )
            for parameter in param_group["params"]:
                result[parameter] = (*result.get(parameter, ()), group)
    return result


def unique_groups(groups: Iterable[ParameterGroup]) -> tuple[ParameterGroup, ...]:
    """Return the distinct groups, in order."""
    return tuple(dict.fromkeys(groups))


def unoptimized_count(
    parameters: Iterable[nn.Parameter], groups_by_parameter: dict[nn.Parameter, tuple[ParameterGroup, ...]]
) -> int:
    """Return the number of trainable values that no optimizer holds."""
    return sum(p.numel() for p in parameters if p.requires_grad and p not in groups_by_parameter and not is_lazy(p))
