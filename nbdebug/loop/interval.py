"""What happens between two steps of one optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Interval:
    """The time since the last step: whether gradients were cleared (None if nobody looked), and when."""

    cleared: bool | None = None
    backward: bool = False
    emptied: bool = False

    def clear(self) -> None:
        """The gradients were cleared."""
        self.cleared = True
        self.emptied = self.backward

    def found(self, empty: bool) -> None:
        """A backward pass begins, and the gradients were looked at."""
        self.cleared = bool(self.cleared) or empty

    def pulled(self) -> None:
        """A backward pass has ended."""
        self.backward, self.emptied = True, False


def pulls(parameter: Tensor) -> bool:
    """Whether a parameter has a gradient that is not zero; waits for the device."""
    found = parameter.grad
    if found is None:
        return False
    return bool((found.coalesce().values() if found.is_sparse else found).any())


@dataclass
class Stepper:
    """One optimizer and the interval that is under way, with counts of those that are over."""

    optimizer: torch.optim.Optimizer
    interval: Interval
    steps: int = 0
    known: int = 0
    uncleared: int = 0
    emptied: int = 0

    @property
    def parameters(self) -> list[Tensor]:
        """All that it holds."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    @property
    def has_gradients(self) -> bool:
        """Whether any gradient is there that is not zero; waits for the device."""
        return any(pulls(p) for p in self.parameters)

    def begin(self) -> None:
        """A step begins."""
        self.emptied += self.interval.emptied and not self.has_gradients

    def done(self) -> None:
        """A step is done: the interval is judged, and another begins. The first one has no step before it."""
        self.steps += 1
        if self.steps > 1 and self.interval.cleared is not None:
            self.known += 1
            self.uncleared += not self.interval.cleared
        self.interval = Interval()
