"""The fast path of a watched run: plain steps, of which only the loss and what a replay needs are recorded."""

from __future__ import annotations

import math
import time
from typing import Protocol

import torch

from nbdebug.hooks.training_events import LOSS_ONLY, BackwardRoots
from nbdebug.loop_monitor import LoopMonitor
from nbdebug.replay import RingBuffer
from nbdebug.watching.optimizer_steps import StepSampler
from nbdebug.watching.step_recorder import StepRecorder, defer_scalar
from nbdebug.watching.time_budget import TimeBudget


class _RunSession(Protocol):
    """The parts of a watched run that the fast path handles."""

    time_budget: TimeBudget
    ring: RingBuffer
    loop_monitor: LoopMonitor
    recorder: StepRecorder
    step_sampler: StepSampler
    batches_per_epoch: int
    epoch_ended: bool
    at_boundary: bool

    def record_clipping(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the clipping before a step."""

    def prepare_step(self) -> None:
        """Prepare the next step."""

    def measure_at_epoch_end(self) -> None:
        """Measure the fixed samples at the end of an epoch."""


class FastPath:
    """Handles the events of ``LOSS_AND_REPLAY`` and ``LOSS_ONLY`` steps with the same results as the full path.

    Each method except ``after_loss_only_step`` returns whether it applies; it has no effect if it does not.
    """

    def __init__(self, session: _RunSession) -> None:
        self.session, self.time_budget, self.ring = session, session.time_budget, session.ring
        self.loop_monitor, self.recorder = session.loop_monitor, session.recorder
        self.step_sampler = session.step_sampler

    def before_backward(self, roots: BackwardRoots) -> bool:
        """Handle a backward pass that is about to run, including the work that usually follows it."""
        session, ring, loop_monitor = self.session, self.ring, self.loop_monitor
        keeps_weights = ring.weight_backup is not None
        is_plain = (
            not keeps_weights and not ring.is_stepping and ring.scaler is None and loop_monitor.tracked_optimizers
        )
        if not is_plain or len(roots) != 1 or self.recorder.evaluation_losses:
            return False
        if roots[0].numel() != 1 or roots[0].is_complex():
            return False
        loss = defer_scalar(roots[0])
        value = loss if isinstance(loss, float) else None  # a value on a device is read later
        if not (self.time_budget.visibility is LOSS_ONLY and (value is None or math.isfinite(value))):
            self.time_budget.attempt("replay", ring.on_backward_begin, roots, value)
        self.recorder.row.losses.append(loss)
        loop_monitor.count_untracked_backward()
        if session.batches_per_epoch and loop_monitor.backward_passes % session.batches_per_epoch == 0:
            session.epoch_ended = True
        return True

    def before_step(self, optimizer: torch.optim.Optimizer | None) -> bool:
        """Handle an optimizer that is about to step."""
        if (
            optimizer is None
            or optimizer is not self.loop_monitor.first_optimizer
            or self.step_sampler.snapshot
            or self.time_budget.measures_norms
        ):
            return False
        if self.loop_monitor.tracked_optimizers[id(optimizer)].interval.clip:
            self.session.record_clipping(optimizer)
        self.time_budget.attempt("replay", self.ring.on_step_begin, optimizer)
        return True

    def after_step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Handle an optimizer that has stepped; if nothing is due, the next step takes the fast path again."""
        session, loop_monitor, recorder, now = self.session, self.loop_monitor, self.recorder, time.perf_counter()
        if (
            optimizer is not loop_monitor.first_optimizer
            or self.step_sampler.snapshot
            or self.step_sampler.squared_norm is not None
            or session.epoch_ended
        ):
            return False
        loop_monitor.count_untracked_step(loop_monitor.tracked_optimizers[id(optimizer)])
        self.ring.on_step_end(optimizer)
        recorder.finish_step(optimizer, now)
        session.at_boundary = True
        if (
            loop_monitor.plan.is_inspection_due
            or loop_monitor.plan.marks_graphs
            or not self.time_budget.stays_loss_and_replay(recorder.step, now)
        ):
            session.prepare_step()
        return True

    def after_loss_only_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Handle an optimizer that has stepped in a step that records only its loss."""
        session, loop_monitor, now = self.session, self.loop_monitor, time.perf_counter()
        if optimizer is not loop_monitor.first_optimizer:
            return
        loop_monitor.count_untracked_step(loop_monitor.tracked_optimizers[id(optimizer)])
        self.ring.count_loss_only_step()
        self.recorder.finish_loss_only_step(optimizer, now)
        session.at_boundary = True
        if session.epoch_ended:
            session.measure_at_epoch_end()
        if loop_monitor.plan.is_inspection_due or not self.time_budget.stays_loss_only(self.recorder.step, now):
            session.prepare_step()
