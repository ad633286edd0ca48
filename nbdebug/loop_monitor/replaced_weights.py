"""Averages of the weights that an evaluation puts into the model, and that the training goes on with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.loop_monitor.weight_copies import first_values
from nbdebug.loop_monitor.write_trace import WriteTrace
from nbdebug.source.location import SourceLine, get_running_line
from nbdebug.source.references import user_frames

_COMPARED_PARAMETERS, _MAX_KNOWN, _MAX_TRACES = 2, 64, 8
_CHECKED_STEPS = 40  # first steps between which the weights may not change without an evaluation either
_MIN_CHANGED, _MIN_INSIDE, _ROUNDING = 0.9, 0.99, 1e-6


@dataclass(frozen=True)
class ReplacedWeights:
    """Evaluations that left an average of earlier weights in the model: ``count``, the first one after ``step`` steps.

    ``distance`` is the norm of the latest difference from the trained weights, relative to these. ``line`` wrote the
    average, in the innermost function that evaluates as well.
    """

    count: int
    step: int
    distance: float
    line: SourceLine | None


class _StackTrace(WriteTrace):
    """Records the user's stack at the first write: the identity of each frame and its line, the innermost first."""

    max_uses = _MAX_TRACES

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[tuple[int, SourceLine]] = []

    def record(self, function: Any, args: tuple[Any, ...], line: SourceLine) -> None:
        """Record the stack of the first write."""
        super().record(function, args, line)
        if self.line is not None and not self.stack:
            self.stack = [(id(frame), get_running_line(frame)) for frame in user_frames(sys._getframe(1))]


class ReplacedWeightsMonitor:
    """Compares the weights after the last step before an evaluation with those in it and in the first step after it.

    An average of earlier weights lies between the smallest and the largest value that each weight had. Weights of an
    earlier step, as of the best one, are restored on purpose; so are few weights changed, or all scaled.
    """

    def __init__(self, model: nn.Module) -> None:
        trained = [p for p in model.parameters() if p.requires_grad and p.numel() and p.is_floating_point()]
        self.parameters = trained[-_COMPARED_PARAMETERS:]
        self.latest = self.low = self.high = self.values()
        self.known: list[Tensor] = []
        self.average: Tensor | None = None
        self.is_evaluating = False
        self.steps = self.evaluated_step = self.expected_step = self.first_step = 0
        self.count = self.other_changes = 0
        self.distance = 0.0
        self.write_trace = _StackTrace()
        self.line: SourceLine | None = None

    @torch.no_grad()
    def values(self) -> Tensor:
        """Return some values of the weights."""
        values = [first_values(p).float() for p in self.parameters]
        return torch.cat([part.to(values[0].device) for part in values]) if values else torch.zeros(0)

    def on_step_end(self) -> None:
        """Store the weights; trace what follows if an evaluation is due, as evaluations come at equal intervals."""
        self.steps += 1
        self.is_evaluating = False  # a step of which only the loss is recorded may have passed unseen
        self.latest = self.values()
        self.low, self.high = torch.minimum(self.low, self.latest), torch.maximum(self.high, self.latest)
        if self.count and self.line is None and self.steps == self.expected_step:
            self.write_trace.open(self.parameters)

    def on_forward_begin(self, is_evaluation: bool) -> None:
        """Compare the weights at the first pass of an evaluation, and at the first pass after it."""
        self.write_trace.close()
        if not self.steps or not self.parameters:
            return
        if is_evaluation and self.steps != self.evaluated_step:
            self.begin_evaluation()
        elif not is_evaluation and self.is_evaluating:
            self.end_evaluation()
        elif not is_evaluation and self.steps <= _CHECKED_STEPS and self.steps != self.evaluated_step:
            self.other_changes += not torch.equal(self.values(), self.latest)

    def begin_evaluation(self) -> None:
        """Check whether the weights in an evaluation are an average of earlier ones."""
        self.expected_step = 2 * self.steps - self.evaluated_step
        self.evaluated_step, self.is_evaluating = self.steps, True
        current = self.values()
        self.average = current if self.is_average(current) else None
        self.known = [*self.known, self.latest][-_MAX_KNOWN:]
        if self.average is not None and self.write_trace.stack and self.line is None:
            frames = {id(frame) for frame in user_frames(sys._getframe(1))}
            self.line = next((line for frame, line in self.write_trace.stack if frame in frames), self.write_trace.line)

    def end_evaluation(self) -> None:
        """Check whether the training goes on with the average, or with the weights of the last step."""
        self.is_evaluating = False
        current = self.values()
        if self.average is None or not torch.equal(current, self.average):
            self.other_changes += self.average is not None or not torch.equal(current, self.latest)
            return
        self.first_step = self.first_step or self.steps
        self.distance = float((current - self.latest).norm() / self.latest.norm().clamp_min(1e-12))
        self.count += 1

    def is_average(self, current: Tensor) -> bool:
        """Return whether nearly all weights have changed, within their range, and not to those of an earlier step."""
        tolerance = _ROUNDING * float(self.latest.abs().max())
        is_changed = (current - self.latest).abs() > tolerance
        is_inside = (current >= self.low - tolerance) & (current <= self.high + tolerance)
        cosine = torch.nn.functional.cosine_similarity(current, self.latest, dim=0)
        return (
            float(is_changed.float().mean()) > _MIN_CHANGED
            and float(is_inside.float().mean()) > _MIN_INSIDE
            and 1 - float(cosine) > _ROUNDING
            and not any(torch.equal(current, values) for values in self.known)
        )

    def summary(self) -> ReplacedWeights | None:
        """Return the evaluations that left an average, if two or more did and nothing else changed the weights."""
        if self.count < 2 or self.other_changes:
            return None
        return ReplacedWeights(self.count, self.first_step, self.distance, self.line)
