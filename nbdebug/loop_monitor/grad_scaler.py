"""Use of a GradScaler in a loop."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.hooks.training_events import GradScalerCall
from nbdebug.loop_monitor.event_stacks import user_stack
from nbdebug.loop_monitor.gradient_accumulation import TrackedOptimizer
from nbdebug.source.location import SourceLine


@dataclass
class ScalerSteps:
    """Counts of the inspected steps of one optimizer in a loop with a GradScaler, and the line of the first one.

    ``scaled_steps`` used gradients that were still scaled, ``unchecked_steps`` used unscaled gradients without the
    scaler's check for non-finite values, ``unscaled_loss_steps`` went through the scaler with gradients of a loss that
    it had not scaled.
    """

    line: SourceLine | None
    checked_steps: int = 0
    scaled_steps: int = 0
    unchecked_steps: int = 0
    unscaled_loss_steps: int = 0


@dataclass(frozen=True)
class GradScalerUsage:
    """The ``steps`` of each optimizer in a loop with a GradScaler.

    ``skipped_steps`` of all ``requested_steps`` were skipped; ``scale`` is the last scale.
    """

    steps: tuple[ScalerSteps, ...] = ()
    requested_steps: int = 0
    skipped_steps: int = 0
    scale: float = 1.0


class GradScalerMonitor:
    """Counts the steps."""

    def __init__(self) -> None:
        self.steps: dict[int, ScalerSteps] = {}
        self.requested_steps = self.skipped_steps = self.last_requested_step = 0
        self.scaled_losses: list[weakref.ref[Tensor]] = []
        self.scaler: Any = None

    def record_call(self, event: GradScalerCall, tracked: TrackedOptimizer | None) -> None:
        """Record a call of a scaler; ``tracked`` is the monitored optimizer that it was called for, if any."""
        if event.kind == "scale":
            self.scaler = event.scaler
            self.scaled_losses = [loss for loss in self.scaled_losses if loss() is not None][-16:]
            self.scaled_losses += [weakref.ref(loss) for loss in event.losses]
        elif tracked is None:
            return
        elif event.kind == "unscale":
            tracked.interval.unscaled = True
        elif event.kind == "step":
            tracked.interval.stepped_by_scaler, self.last_requested_step = True, tracked.steps
            self.requested_steps += 1
        elif event.kind == "skipped":
            self.record_skipped_step(tracked)

    def record_skipped_step(self, tracked: TrackedOptimizer) -> None:
        """Record a step that was skipped, by not calling the optimizer or by ``found_inf``."""
        self.skipped_steps += 1
        if tracked.steps == self.last_requested_step:
            tracked.on_step_skipped()
        else:
            tracked.skipped_steps, tracked.previous_interval.skipped = tracked.skipped_steps + 1, True

    def starts_from_scaled_loss(self, roots: Sequence[Tensor]) -> bool:
        """Check whether a backward pass starts from a scaled loss: the same tensor, or else the next in turn."""
        if not self.scaled_losses:
            return False
        matching = [loss for loss in self.scaled_losses if any(loss() is root for root in roots)]
        for loss in matching or self.scaled_losses[:1]:
            self.scaled_losses.remove(loss)
        return True

    @property
    def scale(self) -> Tensor | None:
        """Current scale of the losses, on their device; None without a scaler."""
        scale = getattr(self.scaler, "_scale", None)
        return scale if isinstance(scale, Tensor) else None

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Record the start of a step that closes an interval."""
        interval = tracked.interval
        if self.scaler is None or not interval.inspected or not interval.passes:
            return
        steps = self.steps.get(id(tracked))
        if steps is None:
            stack = user_stack(sys._getframe(1))
            steps = self.steps[id(tracked)] = ScalerSteps(stack[0] if stack else None)
        steps.checked_steps += 1
        if interval.stepped_by_scaler:
            steps.unscaled_loss_steps += interval.scaled_passes < interval.passes
        elif interval.scaled_passes:
            steps.unchecked_steps += interval.unscaled
            steps.scaled_steps += not interval.unscaled

    def summary(self) -> GradScalerUsage:
        """Return all counts; synchronizes the device."""
        scale = float(self.scaler.get_scale()) if self.scaler is not None else 1.0
        return GradScalerUsage(tuple(self.steps.values()), self.requested_steps, self.skipped_steps, scale)
