"""The optimizers of a loop, and those that take the place of another one while it runs."""

from __future__ import annotations

import weakref
from collections import Counter

import torch
from torch import nn

from nbdebug.loop_monitor.gradient_accumulation import DoubleUpdateCounter, TrackedOptimizer
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters

_MIN_STEPS = 2  # of another optimizer before one that has never stepped counts as replaced or idle
_MIN_STEPS_WITHOUT_GRADIENT = 32  # the discriminator of a GAN may step several times before its generator
_OptimizerSet = weakref.WeakSet[torch.optim.Optimizer]


class OptimizerTracking:
    """Tracks the optimizers of a loop that hold parameters of the model; the steps of the first one count.

    If the first one never steps, the steps of another one count.
    ``twin_steps`` are those of optimizers that hold other tensors of the same shapes, after a backward pass.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.model, self.double_update_counter = setup, setup.eager_model, DoubleUpdateCounter(setup)
        self.own_parameter_shapes = {id(p): tuple(p.shape) for p in self.model.parameters()}
        self.first_optimizer: torch.optim.Optimizer | None = None
        self.tracked_optimizers: dict[int, TrackedOptimizer] = {}
        self.optimizer_by_parameter: dict[int, TrackedOptimizer] = {}
        self.unrelated_optimizers, self.replaced_optimizers = _OptimizerSet(), _OptimizerSet()
        self.twin_optimizers, self.twin_steps, self.twin_pass = _OptimizerSet(), 0, 0
        self.backward_passes = 0
        for optimizer in setup.optimizers:
            self.track_optimizer(optimizer)

    def accepts_optimizer(self, optimizer: torch.optim.Optimizer) -> bool:
        """Check whether an optimizer is one of the user's or holds parameters of the model; if so, track it."""
        if id(optimizer) in self.tracked_optimizers:
            return True
        if optimizer not in self.unrelated_optimizers:
            parameter_ids = set(map(id, optimized_parameters(optimizer)))
            self.follow_parameters()
            if not self.own_parameter_shapes.keys().isdisjoint(parameter_ids):
                self.track_optimizer(optimizer)
                return True
            if self.has_model_shapes(optimizer):
                self.twin_optimizers.add(optimizer)
        self.unrelated_optimizers.add(optimizer)
        if optimizer in self.twin_optimizers and self.backward_passes > self.twin_pass:
            self.twin_steps, self.twin_pass = self.twin_steps + 1, self.backward_passes
        return False

    def has_model_shapes(self, optimizer: torch.optim.Optimizer) -> bool:
        """Check whether an optimizer holds tensors with the shapes of all trainable parameters of the model."""
        shapes = Counter(tuple(p.shape) for p in optimized_parameters(optimizer))
        return shapes == Counter(tuple(p.shape) for p in self.model.parameters() if p.requires_grad)

    def follow_parameters(self) -> bool:
        """Add the parameters that came into the model while the loop ran; return whether there are any."""
        shapes = {id(p): tuple(p.shape) for p in self.model.parameters()}
        has_grown = not shapes.keys() <= self.own_parameter_shapes.keys()
        self.own_parameter_shapes.update(shapes)
        return has_grown

    def track_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Track the steps of an optimizer."""
        tracked = self.tracked_optimizers[id(optimizer)] = TrackedOptimizer(optimizer)
        self.first_optimizer = self.first_optimizer or optimizer
        self.replaced_optimizers.discard(optimizer)
        self.double_update_counter.track_optimizer(tracked)
        self.optimizer_by_parameter.update((id(p), tracked) for p in tracked.parameters)

    def follow_successor(self, successor: TrackedOptimizer) -> None:
        """Let an optimizer that replaces the first one take its place, with its counts, or the place of an idle one."""
        first = self.tracked_optimizers.get(id(self.first_optimizer))
        if first and _replaces(successor, first, self.model):
            _hand_over(successor, first)
            self.replaced_optimizers.add(first.optimizer)
            self.first_optimizer = successor.optimizer
            self.double_update_counter.forget(self.tracked_optimizers.pop(id(first.optimizer)))
        elif first and _is_idle(first, successor):
            self.first_optimizer = successor.optimizer


def _replaces(successor: TrackedOptimizer, tracked: TrackedOptimizer, model: nn.Module) -> bool:
    """Check whether an optimizer that is about to step takes the place of another one.

    It does if it holds all parameters of the model that the other one holds, and a backward pass has run since the
    other one stepped. If that has never stepped, one common parameter is enough from the third step on.
    """
    of_model = {id(p) for p in model.parameters()}
    held = {id(p) for p in tracked.parameters} & of_model
    common = held & {id(p) for p in successor.parameters}
    if not tracked.steps and successor.steps >= _MIN_STEPS:
        return bool(common)
    return bool(held) and common == held and tracked.interval.has_backward


def _is_idle(tracked: TrackedOptimizer, other: TrackedOptimizer) -> bool:
    """Check whether an optimizer never steps, while another one that is about to step does."""
    if tracked.steps or tracked.skipped_steps:
        return False
    has_gradient = any(parameter.grad is not None for parameter in tracked.parameters)
    return other.steps >= (_MIN_STEPS if has_gradient else _MIN_STEPS_WITHOUT_GRADIENT)


def _hand_over(successor: TrackedOptimizer, tracked: TrackedOptimizer) -> None:
    """Add the counts of an optimizer to those of its successor, which goes on with the events since the last step."""
    successor.steps += tracked.steps
    successor.checked_intervals += tracked.checked_intervals
    successor.uncleared_intervals += tracked.uncleared_intervals
    successor.uncleared_step_line = tracked.uncleared_step_line
    successor.cleared_after_backward += tracked.cleared_after_backward
    successor.closure_steps += tracked.closure_steps
    successor.uncleared_closure_steps += tracked.uncleared_closure_steps
    successor.skipped_steps += tracked.skipped_steps
    successor.was_clipped = tracked.was_clipped
    successor.interval, successor.gradient_versions = tracked.interval, tracked.gradient_versions
