"""Count the steps that accumulate the losses of several batches, or of parts of a batch, divided or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nbdebug.loop_monitor.gradient_accumulation import StepInterval, TrackedOptimizer
from nbdebug.source.location import SourceLine

_WEIGHT_TOLERANCE = 0.02  # of the weight of a divided loss


@dataclass(frozen=True)
class GradientAccumulation:
    """Counts of the inspected steps, and of those that accumulated several backward passes.

    ``undivided_steps`` of them summed the undivided losses of several batches at one ``line``; ``passes`` is their
    typical number of passes. ``are_parts`` tells whether these were passes over parts of one batch. In
    ``divided_steps`` and ``twice_divided_steps``, each of ``divided_passes`` losses entered with one over that number,
    and over its square. ``adaptive`` tells whether the optimizer is invariant to a constant factor.
    """

    checked_steps: int = 0
    undivided_steps: int = 0
    passes: int = 0
    line: SourceLine | None = None
    adaptive: bool = False
    divided_steps: int = 0
    twice_divided_steps: int = 0
    divided_passes: int = 0
    are_parts: bool = False


class AccumulationCounter:
    """Counts the steps."""

    def __init__(self) -> None:
        self.checked_steps = 0
        self.undivided_steps: Counter[int] = Counter()
        self.divided_steps: dict[int, Counter[int]] = {1: Counter(), 2: Counter()}
        self.line: SourceLine | None = None
        self.adaptive = self.are_parts = False

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Record the start of a step that closes an interval."""
        interval = tracked.interval
        if not interval.inspected or not interval.passes:
            return
        self.checked_steps += 1
        pass_count, lines = interval.passes, interval.lines
        are_parts = interval.batches < pass_count
        if pass_count < 2 or len(lines) > 1 or (are_parts and not _are_of_parts(interval)):
            return
        is_undivided = interval.undivided_passes == pass_count
        self.undivided_steps[pass_count] += is_undivided
        power = next((power for power in (1, 2) if _are_close(interval.largest_weights, pass_count**-power)), 0)
        if power and not is_undivided:
            self.divided_steps[power][pass_count] += 1
        (self.line,), self.adaptive, self.are_parts = lines, _is_adaptive(tracked), are_parts

    def summary(self) -> GradientAccumulation:
        """Return all counts."""
        typical_passes = max(self.undivided_steps, key=lambda pass_count: self.undivided_steps[pass_count], default=0)
        divided, twice = self.divided_steps[1], self.divided_steps[2]
        return GradientAccumulation(
            self.checked_steps,
            self.undivided_steps.total(),
            typical_passes,
            self.line,
            self.adaptive,
            divided.total(),
            twice.total(),
            next((count for count, _ in (divided + twice).most_common(1)), 0),
            self.are_parts,
        )


def _are_of_parts(interval: StepInterval) -> bool:
    """Return whether each backward pass came from a loss of torch on other rows of a batch."""
    return interval.parts == interval.passes and all(interval.largest_weights)


def _are_close(weights: Sequence[float], expected: float) -> bool:
    return bool(weights) and all(abs(weight - expected) <= _WEIGHT_TOLERANCE * expected for weight in weights)


def _is_adaptive(tracked: TrackedOptimizer) -> bool:
    """Check whether an optimizer divides gradients by their own magnitude, as those with a squared average do."""
    group = tracked.optimizer.param_groups[0]
    return bool({"betas", "alpha", "rho", "lr_decay", "etas", "beta2_decay"} & set(group)) and "lambd" not in group
