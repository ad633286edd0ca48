"""One sweep: the dial turned from value to value, a step at each, until the loss diverges or the values are used up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import isfinite

import torch

from nbdebug.setup import Batch, Setup
from nbdebug.setup.modes import in_mode
from nbdebug.setup.users_code import users_code
from nbdebug.tools.lr_range.dial import Dial
from nbdebug.tools.lr_range.result import Ended, Sweep
from nbdebug.tools.lr_range.smoothing import FACTOR, Guard, Running, smoothed
from nbdebug.tools.lr_range.trainer import Trainer

Seen = Callable[[float, float, float], bool]


@dataclass
class Pass:
    """A sweep under way. ``seen`` is given value, loss and running mean of each step, and says whether to stop.

    With ``held_out``, the loss of that batch after the step is what counts; with ``control``, the losses of another
    pass over the same batches, what lies between the two.
    """

    setup: Setup
    trainer: Trainer
    dial: Dial
    values: Sequence[float]
    seen: Seen
    held_out: Batch | None = None
    control: Sequence[float] = ()
    factor: float = FACTOR
    ended: Ended = "finished"
    steps: int = 0
    guard: Guard = field(init=False)

    def __post_init__(self) -> None:
        """Starts without a loss."""
        self.guard = Guard(len(self.values), self.factor)
        self.running = Running(len(self.values))
        self.between: list[float] = []

    def run(self) -> None:
        """Steps until the end; raises SetupError with the step for what the user's code raises."""
        with torch.enable_grad(), self.told():
            for value in self.values:
                self.dial.turn(value)
                loss = self.loss()
                self.steps += 1
                if not isfinite(loss):
                    self.ended = "not finite"
                elif self.guard.diverged(loss):
                    self.ended = "diverged"
                if isfinite(loss) and self.heard(value, loss):
                    self.ended = "stopped"
                if self.ended != "finished":
                    return

    def heard(self, value: float, loss: float) -> bool:
        """Tells of a finite loss, and gives whether to stop."""
        if not self.control:
            return self.seen(value, loss, self.guard.mean)
        self.between.append(loss - self.control[len(self.between)])
        return self.seen(value, self.between[-1], self.running(self.between[-1]))

    def told(self) -> AbstractContextManager[None]:
        """The border to the user's code."""
        return users_code(lambda: f"in step {self.steps} of the range test, at {self.values[self.steps]:.3g}")

    def loss(self) -> float:
        """One step and its loss."""
        loss = self.trainer.step()
        return self.loss_held_out(self.held_out) if self.held_out is not None and isfinite(loss) else loss

    @torch.no_grad()
    def loss_held_out(self, batch: Batch) -> float:
        """The loss of the validation batch, in eval mode."""
        with in_mode(self.setup.eager, training=False):
            return float(self.setup.run(batch, self.setup.model)[1])

    def result(self, seed: int) -> Sweep:
        """The sweep as plain data."""
        losses = tuple(self.between if self.control else self.guard.losses)
        return Sweep(seed, tuple(self.values[: len(losses)]), losses, smoothed(losses), self.ended)
