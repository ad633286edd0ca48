"""Who trains a submodule, and at what rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer


@dataclass(frozen=True)
class Group:
    """One parameter group of one optimizer; ``optimizer`` and ``group`` are None where there is no other.

    ``rate`` is its learning rate now, None for an optimizer without one.
    """

    name: str
    optimizer: int | None
    group: int | None
    rate: float | None

    @property
    def owner(self) -> str:
        """The optimizer, with its number where there are several."""
        return self.name if self.optimizer is None else f"{self.name} #{self.optimizer}"

    def __str__(self) -> str:
        """Such as ``AdamW, group 1, lr 0.001``, or ``Adam #0, lr 0.1`` where there are several optimizers."""
        group = None if self.group is None else f"group {self.group}"
        rate = None if self.rate is None else f"lr {self.rate:.4g}"
        return ", ".join(filter(None, [self.owner, group, rate]))


def groups(optimizers: tuple[Optimizer, ...]) -> dict[nn.Parameter, tuple[Group, ...]]:
    """For each parameter the groups that hold it."""
    found: dict[nn.Parameter, tuple[Group, ...]] = {}
    for i, optimizer in enumerate(optimizers):
        for j, given in enumerate(optimizer.param_groups):
            rate = given.get("lr")
            one = Group(
                type(optimizer).__name__,
                i if len(optimizers) > 1 else None,
                j if len(optimizer.param_groups) > 1 else None,
                float(rate) if rate is not None else None,
            )
            for parameter in given["params"]:
                found[parameter] = (*found.get(parameter, ()), one)
    return found


def several(given: Iterable[Group]) -> tuple[Group, ...]:
    """Each group once, in order."""
    return tuple(dict.fromkeys(given))


def loose(parameters: Iterable[nn.Parameter], held: dict[nn.Parameter, tuple[Group, ...]]) -> int:
    """How many trainable values no optimizer holds."""
    return sum(p.numel() for p in parameters if p.requires_grad and p not in held and not is_lazy(p))
