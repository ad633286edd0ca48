"""An attempt at memorizing the tiny batch, and the goal that counts as memorized."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from nbdebug.setup import Batch
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.tools.overfit.loss_floor import LossFloor
from nbdebug.tools.overfit.readout import PredictionReader, Readout
from nbdebug.tools.overfit.result import Attempt, RecordedStep
from nbdebug.training.model_copy import TrainableSetup
from nbdebug.training.trainer import needs_closure

# Share of the gap between the best constant output and the floor: an R² of 0.9 in regression, and for cross-entropy a
# mean probability of the target of 0.8 with ten classes and 0.93 with two.
_GOAL_GAP_SHARE = 0.1
_PATIENCE_STEPS = 30


@dataclass(frozen=True)
class MemorizationGoal:
    """The loss to reach, and the accuracy if each example has one class; None if there is none to reach."""

    loss: float | None
    accuracy: float | None = None

    def is_low_enough(self, loss: float) -> bool:
        """Check whether a loss is low enough."""
        return self.loss is not None and loss <= self.loss

    def is_met(self, loss: float, accuracy: float | None) -> bool:
        """Check whether the examples count as memorized."""
        is_accurate = self.accuracy is None or (accuracy is not None and accuracy >= self.accuracy)
        return self.is_low_enough(loss) and is_accurate


def memorization_goal(floor: LossFloor, initial: float, accuracy: float | None) -> MemorizationGoal:
    """Return the goal: a tenth of the gap above the floor, up to the best constant output or the initial loss.

    An unknown floor counts as zero, unless the loss is unbounded below: few losses are negative, so coming close to
    zero is conclusive.
    """
    if floor.is_unbounded:
        return MemorizationGoal(None, accuracy)
    lower = floor.value if floor.value is not None else 0.0
    upper = initial if floor.constant_loss is None or floor.is_blind else floor.constant_loss
    return (
        MemorizationGoal(lower + _GOAL_GAP_SHARE * (upper - lower), accuracy)
        if upper >= lower
        else MemorizationGoal(None, accuracy)
    )


class _OutOfSteps(Exception):
    """An optimizer that calls its closure repeatedly has used up the steps."""


@dataclass
class AttemptRunner:
    """A running attempt with at most ``steps`` passes; one in ``recording_interval`` of them is recorded."""

    trainable_setup: TrainableSetup
    optimizers: list[Optimizer]
    batch: Batch
    goal: MemorizationGoal
    reader: PredictionReader
    steps: int
    recording_interval: int
    on_step: Callable[[int, float, RecordedStep | None], bool]
    needs_dense_gradients: bool = False
    losses: list[float] = field(default_factory=list)
    points: list[RecordedStep] = field(default_factory=list)
    output: Any = None
    loss: Tensor = field(default_factory=lambda: torch.zeros(()))
    first_met_step: int | None = None
    modes_met: set[str] = field(default_factory=set)
    stop_reason: str = ""

    def train(self) -> None:
        """Run steps until the goal is met in both modes, the loss is not finite, or the steps are used up."""
        with torch.enable_grad():
            while not self.stop_reason and len(self.losses) < self.steps:
                try:
                    self.step()
                except _OutOfSteps:
                    return

    def step(self) -> None:
        """Run a step of every optimizer, unless the attempt ends before it."""
        self.forward_backward()
        self.inspect_step()
        if self.stop_reason:
            return
        closure = self.repeat_closure()
        for optimizer in self.optimizers:
            if needs_closure(optimizer):
                optimizer.step(closure)  # type: ignore[arg-type]
            else:
                optimizer.step()

    def forward_backward(self) -> Tensor:
        """Compute the loss and its gradients."""
        if len(self.losses) >= self.steps:
            raise _OutOfSteps
        for p in self.trainable_setup.trainable:
            p.grad = None
        self.output, loss = self.trainable_setup.setup.output_and_loss(self.batch)
        self.losses.append(float(loss.detach()))
        if not math.isfinite(self.losses[-1]):
            self.stop_reason = "not finite"
        elif not loss.requires_grad:
            self.stop_reason = "no gradient"
        else:
            loss.backward()  # type: ignore[no-untyped-call]
            self.densify_gradients()
        self.loss = loss.detach()
        return self.loss

    def densify_gradients(self) -> None:
        """Convert sparse gradients to dense ones for an optimizer that supports no others."""
        for p in self.trainable_setup.trainable if self.needs_dense_gradients else ():
            if p.grad is not None and p.grad.is_sparse:
                p.grad = p.grad.to_dense()

    def repeat_closure(self) -> Callable[[], Tensor]:
        """Return a closure whose first call returns the loss of the pass that was just run."""
        computed_losses = [self.loss]
        return lambda: computed_losses.pop() if computed_losses else self.forward_backward()

    def inspect_step(self) -> None:
        """Record the step if it is due, and compare it with the goal."""
        step, loss = len(self.losses) - 1, self.losses[-1]
        is_due = not self.points or step - self.points[-1].step >= self.recording_interval or bool(self.stop_reason)
        point = self.record_step(step, loss) if is_due or self.goal.is_low_enough(loss) else None
        if self.on_step(step, loss, point):
            self.stop_reason = "stopped"
        if point is not None:
            self.update_modes_met(point)
        if (
            self.first_met_step is not None
            and not self.stop_reason
            and (len(self.modes_met) == 2 or step - self.first_met_step >= _PATIENCE_STEPS)
        ):
            self.stop_reason = "met"

    def record_step(self, step: int, loss: float) -> RecordedStep:
        """Record losses, accuracies, predictions and the gradient norm, in train mode and in eval mode."""
        readout = self.reader.read(self.output, self.batch)
        eval_readout, eval_loss = self.read_in_eval_mode()
        norm = _gradient_norm(self.trainable_setup.trainable)
        point = RecordedStep(
            step,
            loss,
            eval_loss,
            readout.accuracy,
            eval_readout.accuracy,
            norm,
            eval_readout.prediction,
            eval_readout.score,
        )
        self.points.append(point)
        return point

    def update_modes_met(self, point: RecordedStep) -> None:
        """Update the modes in which the goal has been met."""
        modes = {"train": (point.loss, point.accuracy), "eval": (point.eval_loss, point.eval_accuracy)}
        self.modes_met |= {mode for mode, (loss, accuracy) in modes.items() if self.goal.is_met(loss, accuracy)}
        if self.modes_met and self.first_met_step is None:
            self.first_met_step = point.step

    @torch.no_grad()
    def read_in_eval_mode(self) -> tuple[Readout, float]:
        """Return predictions and loss without dropout and with the running statistics of batch normalization."""
        with in_mode(self.trainable_setup.setup.eager_model, training=False):
            output, loss = self.trainable_setup.setup.output_and_loss(self.batch)
            return self.reader.read(output, self.batch), float(loss)

    def result(self, name: str) -> Attempt:
        """Return the attempt as plain data."""
        named_parameters = self.trainable_setup.setup.eager_model.named_parameters()
        without_gradient = tuple(
            n for n, p in named_parameters if p.requires_grad and (p.grad is None or not bool(p.grad.any()))
        )
        return Attempt(
            name,
            tuple(self.losses),
            tuple(self.points),
            tuple(sorted(self.modes_met)),
            self.stop_reason,
            without_gradient,
        )


def _gradient_norm(parameters: list[Tensor]) -> float | None:
    """Return the norm of all gradients; None if no parameter has one."""
    gradients = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return None
    return math.hypot(*(float(torch.linalg.vector_norm(g.float())) for g in gradients))
