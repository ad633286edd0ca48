"""One attempt at memorizing the tiny batch: an optimizer, its steps, and what was seen on the way."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from nbdebug.setup import Batch
from nbdebug.setup.modes import in_mode
from nbdebug.tools.overfit.goal import Goal
from nbdebug.tools.overfit.readout import Reader, Readout
from nbdebug.tools.overfit.result import Attempt, Point
from nbdebug.tools.overfit.trainee import Trainee

PATIENCE = 30


class OutOfSteps(Exception):
    """An optimizer that calls its closure many times has used up the steps."""


@dataclass
class Run:
    """An attempt under way. ``steps`` bounds its forward and backward passes, ``every`` is how often it is recorded."""

    trainee: Trainee
    optimizers: list[Optimizer]
    batch: Batch
    goal: Goal
    reader: Reader
    steps: int
    every: int
    seen: Callable[[int, float, Point | None], bool]
    dense: bool = False
    losses: list[float] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    output: Any = None
    loss: Tensor = field(default_factory=lambda: torch.zeros(()))
    first_met: int | None = None
    met: set[str] = field(default_factory=set)
    ended: str = ""

    def train(self) -> None:
        """Steps until the goal is met in both modes, the loss is not finite, or the steps are used up."""
        with torch.enable_grad():
            while not self.ended and len(self.losses) < self.steps:
                try:
                    self.step()
                except OutOfSteps:
                    return

    def step(self) -> None:
        """One step of every optimizer, unless what is seen before it ends the attempt."""
        self.passed()
        self.look()
        if self.ended:
            return
        repeat = self.repeated()
        for one in self.optimizers:
            if needs_closure(one):
                one.step(repeat)  # type: ignore[arg-type]
            else:
                one.step()

    def passed(self) -> Tensor:
        """The loss, with gradients in place."""
        if len(self.losses) >= self.steps:
            raise OutOfSteps
        for p in self.trainee.trainable:
            p.grad = None
        self.output, loss = self.trainee.setup.run(self.batch)
        self.losses.append(float(loss.detach()))
        if not math.isfinite(self.losses[-1]):
            self.ended = "not finite"
        elif not loss.requires_grad:
            self.ended = "no gradient"
        else:
            loss.backward()  # type: ignore[no-untyped-call]
            self.make_dense()
        self.loss = loss.detach()
        return self.loss

    def make_dense(self) -> None:
        """Sparse gradients as dense ones, for an optimizer that is not the user's and takes no others."""
        for p in self.trainee.trainable if self.dense else ():
            if p.grad is not None and p.grad.is_sparse:
                p.grad = p.grad.to_dense()

    def repeated(self) -> Callable[[], Tensor]:
        """A closure whose first call gives the pass that was just made."""
        at_hand = [self.loss]
        return lambda: at_hand.pop() if at_hand else self.passed()

    def look(self) -> None:
        """Records the step where it is due, and judges it against the goal."""
        step, loss = len(self.losses) - 1, self.losses[-1]
        due = not self.points or step - self.points[-1].step >= self.every or bool(self.ended)
        point = self.recorded(step, loss) if due or self.goal.close(loss) else None
        if self.seen(step, loss, point):
            self.ended = "stopped"
        if point is not None:
            self.judge(point)
        if self.first_met is not None and not self.ended and (len(self.met) == 2 or step - self.first_met >= PATIENCE):
            self.ended = "met"

    def recorded(self, step: int, loss: float) -> Point:
        """What model and gradients are like at this step, in train mode and in eval mode."""
        read = self.reader.read(self.output, self.batch)
        calm, calm_loss = self.in_eval_mode()
        norm = gradient_norm(self.trainee.trainable)
        point = Point(step, loss, calm_loss, read.accuracy, calm.accuracy, norm, calm.prediction, calm.score)
        self.points.append(point)
        return point

    def judge(self, point: Point) -> None:
        """Notes in which modes the goal has been met."""
        modes = {"train": (point.loss, point.accuracy), "eval": (point.eval_loss, point.eval_accuracy)}
        self.met |= {mode for mode, (loss, accuracy) in modes.items() if self.goal.met(loss, accuracy)}
        if self.met and self.first_met is None:
            self.first_met = point.step

    @torch.no_grad()
    def in_eval_mode(self) -> tuple[Readout, float]:
        """Predictions and loss without dropout and with the running statistics of batch normalization."""
        with in_mode(self.trainee.setup.eager, training=False):
            output, loss = self.trainee.setup.run(self.batch)
            return self.reader.read(output, self.batch), float(loss)

    def result(self, name: str) -> Attempt:
        """The attempt as plain data."""
        named = self.trainee.setup.eager.named_parameters()
        dead = tuple(n for n, p in named if p.requires_grad and (p.grad is None or not bool(p.grad.any())))
        return Attempt(name, tuple(self.losses), tuple(self.points), tuple(sorted(self.met)), self.ended, dead)


def needs_closure(optimizer: Optimizer) -> bool:
    """Whether an optimizer evaluates the loss itself, as L-BFGS does."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def gradient_norm(parameters: list[Tensor]) -> float | None:
    """The norm of all gradients; None where no parameter has one."""
    found = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    if not found:
        return None
    return math.hypot(*(float(torch.linalg.vector_norm(g.float())) for g in found))
