"""How a GradScaler is used: which losses it scales, and which steps go past it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.loop.interval import Interval, Stepper
from nbdebug.probes.scaling import Scaled


@dataclass(frozen=True)
class Scaling:
    """The steps that were looked at in a loop with a GradScaler, counted.

    ``raw`` ones used gradients that were still scaled, ``past`` ones used unscaled gradients without asking the scaler
    whether they are finite, ``plain`` ones went through the scaler with gradients of a loss that it had not scaled.
    ``skipped`` steps were left out, of all that it was asked for (``asked``); ``scale`` is the last one.
    """

    known: int = 0
    raw: int = 0
    past: int = 0
    plain: int = 0
    asked: int = 0
    skipped: int = 0
    scale: float = 1.0


class Scalers:
    """Counts the steps."""

    def __init__(self) -> None:
        self.known = self.raw = self.past = self.plain = self.asked = self.skipped = self.asked_at = 0
        self.awaited: list[weakref.ref[Tensor]] = []
        self.scaler: Any = None

    def heard(self, event: Scaled, stepper: Stepper | None) -> None:
        """A scaler was called; ``stepper`` is the watched optimizer that it was called for, if it was."""
        if event.kind == "scale":
            self.scaler = event.scaler
            self.awaited = [one for one in self.awaited if one() is not None][-16:]
            self.awaited += [weakref.ref(one) for one in event.losses]
        elif stepper is None:
            return
        elif event.kind == "unscale":
            stepper.interval.unscaled = True
        elif event.kind == "step":
            stepper.interval.through, self.asked_at = True, stepper.steps
            self.asked += 1
        elif event.kind == "skipped":
            self.skip(stepper)

    def skip(self, stepper: Stepper) -> None:
        """A step was left out, by not calling the optimizer or by telling it not to move."""
        self.skipped += 1
        if stepper.steps == self.asked_at:
            stepper.skip()
        else:
            stepper.skipped, stepper.last.skipped = stepper.skipped + 1, True

    def begins_from(self, roots: Sequence[Tensor]) -> bool:
        """Whether a backward pass starts from a loss that was scaled: that very tensor, or else the next in turn."""
        if not self.awaited:
            return False
        same = [one for one in self.awaited if any(one() is root for root in roots)]
        for one in same or self.awaited[:1]:
            self.awaited.remove(one)
        return True

    @property
    def factor(self) -> Tensor | None:
        """What the losses are multiplied by now, on their device; None where no scaler was seen."""
        found = getattr(self.scaler, "_scale", None)
        return found if isinstance(found, Tensor) else None

    def stepped(self, interval: Interval) -> None:
        """A step is about to be made, after all that its interval holds."""
        if self.scaler is None or not interval.looked or not interval.passes:
            return
        self.known += 1
        if interval.through:
            self.plain += interval.scaled < interval.passes
        elif interval.scaled:
            self.past += interval.unscaled
            self.raw += not interval.unscaled

    def seen(self) -> Scaling:
        """All that was counted; waits for the device."""
        scale = float(self.scaler.get_scale()) if self.scaler is not None else 1.0
        return Scaling(self.known, self.raw, self.past, self.plain, self.asked, self.skipped, scale)
