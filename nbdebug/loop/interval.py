"""What happens between two steps of one optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nbdebug.graph.source import Line
from nbdebug.loop.pulls import Touch, pulled
from nbdebug.probes.clipping import Clip


@dataclass
class Interval:
    """The time since the last step: whether gradients were cleared (None if nobody looked), and when.

    While it is ``looked`` at, ``passes`` counts the backward passes that reached these parameters: ``scaled`` of them
    from a loss that a GradScaler had scaled, ``undivided`` from a plain loss; ``lines`` are the user's. ``draws`` are
    batches, ``unscaled`` and ``through`` say whether a GradScaler unscaled the gradients and made the step.
    """

    cleared: bool | None = None
    backward: bool = False
    emptied: bool = False
    looked: bool = True
    passes: int = 0
    scaled: int = 0
    undivided: int = 0
    draws: int = 0
    unscaled: bool = False
    through: bool = False
    skipped: bool = False
    clip: Clip | None = None
    lines: set[Line | None] = field(default_factory=set)

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


@dataclass
class Stepper:
    """One optimizer and the interval that is under way, with counts of those that are over; ``last`` is the latest."""

    optimizer: torch.optim.Optimizer
    interval: Interval = field(default_factory=Interval)
    last: Interval = field(default_factory=Interval)
    touch: Touch | None = None
    steps: int = 0
    known: int = 0
    uncleared: int = 0
    emptied: int = 0
    skipped: int = 0

    @property
    def parameters(self) -> list[Tensor]:
        """All that it holds."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def shares(self, module: nn.Module) -> bool:
        """Whether it holds a parameter of a module."""
        held = {id(p) for p in self.parameters}
        return any(id(p) in held for p in module.parameters())

    @property
    def has_gradients(self) -> bool:
        """Whether any gradient is there that is not zero; waits for the device."""
        return any(pulled(self.parameters))

    def begin(self) -> None:
        """A step begins."""
        self.emptied += self.interval.emptied and not self.has_gradients

    def done(self) -> None:
        """A step is done: the interval is judged, and another begins. The first one has no step before it."""
        self.steps += 1
        if self.steps > 1 and self.interval.cleared is not None:
            self.known += 1
            self.uncleared += not self.interval.cleared
        self.last, self.interval = self.interval, Interval()

    def skip(self) -> None:
        """A GradScaler has left the step out, since a gradient was not finite."""
        self.skipped += 1
        self.interval.skipped = True
        self.last, self.interval = self.interval, Interval()
