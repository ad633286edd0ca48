"""Seconds of each phase of the steps of a running loop, from hooks on loaders, model, loss, backward and optimizer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from statistics import median
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.hooks.data_waits import observe_data_waits, observe_device_copies, observe_loader_starts
from nbdebug.hooks.module_hooks import observe_forward_passes
from nbdebug.hooks.training_events import is_iterator_of, observe_all_steps, observe_backward_passes
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.stop_requests import check_stop
from nbdebug.tools.profile.clocks import HostClock, device_clock, host_seconds, reading_cost

PHASES = ("data", "transfer", "forward", "loss", "backward", "optimizer", "evaluation", "python")
WARMUP_STEPS = 3  # create optimizer state, start workers and fill caches
LineCharges = dict[tuple[str, SourceLine | None], float]  # seconds by phase and line
_EXCLUDED = "own work"  # of the profiler, between two phases
_STEP_END = "end of the step"
_CALIBRATION_CALLS, _CALIBRATION_ROUNDS = 200, 5
_MAX_DEPTH = 200  # frames of a stack


class LoopEnd(BaseException):
    """Ends a loop after the last step to measure; loops do not catch it with ``except Exception``."""


@dataclass(frozen=True)
class StepTime:
    """Seconds of each phase of one step; "python" is everything that belongs to no other phase."""

    phases: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """The sum over the phases."""
        return sum(self.phases.values())


class LoopTimer:
    """Charges the time of a running loop to its phases; a step ends with the step of the first optimizer.

    Raises LoopEnd in the loop after ``steps`` steps, or after at least half of them once ``seconds`` are over. Time
    between the phases is Python of the user's loop; no step is charged with it in a loop of the profiler's own.
    """

    def __init__(self, setup: Setup, steps: int, seconds: float, *, is_own_loop: bool = False) -> None:
        self.setup, self.device = setup, setup.model_device
        self.max_steps, self.max_seconds = steps + WARMUP_STEPS, seconds
        self.min_steps = WARMUP_STEPS + max(steps // 2, 1)
        self.clock = device_clock(self.device)
        self.ended_steps, self.is_over = 0, False
        self.started = time.perf_counter()
        self.reading_seconds, self.reading_cpu_seconds = 0.0, 0.0  # of data, on this thread
        self.transferred_bytes, self.pinned_bytes, self.loader_starts = 0, 0, 0
        self.training_passes, self.used_anomaly_mode = 0, False
        self._open_phases = [_EXCLUDED if is_own_loop else "python"]
        self._marks: list[tuple[Any, str, SourceLine | None]] = []  # an end, with the phase and line to charge
        self._loop_line: SourceLine | None = None
        self._counted_optimizer: Any = None
        self._reading_started, self._data_readings = (0.0, 0.0), 0
        # Of the user's functions that are open while the optimizer steps, and where they are then.
        self.step_codes: tuple[CodeType, ...] = ()
        self.step_lines: tuple[SourceLine, ...] = ()

    @property
    def phase(self) -> str:
        """The phase that runs now."""
        return self._open_phases[-1]

    def enter(self, phase: str) -> None:
        """Begin a phase, which interrupts the present one."""
        self._mark()
        self._open_phases.append(phase)

    def leave(self) -> None:
        """End a phase."""
        if len(self._open_phases) > 1:
            self._mark()
            self._open_phases.pop()

    def enter_line(self, line: SourceLine | None) -> None:
        """Begin a line of the loop."""
        self._mark()
        self._loop_line = line

    def _mark(self) -> None:
        """Charge the time since the last mark to the present phase and line."""
        self._marks.append((self.clock.stamp(), self._open_phases[-1], self._loop_line))

    @contextmanager
    def charge(self, phase: str) -> Iterator[None]:
        """Charge a block to a phase."""
        self.enter(phase)
        try:
            yield
        finally:
            self.leave()

    def exclude(self) -> Any:
        """Return a block that no step is charged with."""
        return self.charge(_EXCLUDED)

    def end_step(self) -> None:
        """End a step; raise LoopEnd after the last one."""
        self._mark()
        self._marks.append((None, _STEP_END, None))
        self.ended_steps += 1
        is_late = self.ended_steps >= self.min_steps and time.perf_counter() - self.started > self.max_seconds
        if self.ended_steps >= self.max_steps or is_late:
            self.is_over = True
            raise LoopEnd
        check_stop()

    @contextmanager
    def observe(self) -> Iterator[None]:
        """Hook the loop that runs within the block; the end of the loop leaves the block quietly."""
        model, loss = self.setup.model, self.setup.loss_fn
        with suppress(LoopEnd), ExitStack() as hooks:
            hooks.enter_context(observe_data_waits(self._begin_data, self._end_data))
            hooks.enter_context(observe_loader_starts(self._begin_loader, lambda _: self.leave()))
            hooks.enter_context(observe_forward_passes(model, self._begin_forward, lambda _: self.leave()))
            hooks.enter_context(observe_backward_passes(self._begin_backward, lambda _: self.leave()))
            hooks.enter_context(observe_all_steps(self._begin_optimizer, self._end_optimizer))
            if isinstance(loss, nn.Module):
                hooks.enter_context(
                    observe_forward_passes(loss, lambda *_: self.enter(self._kind("loss")), lambda _: self.leave())
                )
            if self.device.type != "cpu":
                hooks.enter_context(observe_device_copies(lambda: self.enter("transfer"), self._end_transfer))
            yield

    def step_times(self) -> tuple[StepTime, ...]:
        """Return the phases of every step after the warm-up."""
        steps = []
        for charges in self._charges():
            phases = dict.fromkeys(PHASES, 0.0)
            for (phase, _), seconds in charges.items():
                phases[phase] += seconds
            steps.append(StepTime(phases))
        return tuple(steps)

    def line_seconds(self) -> list[LineCharges]:
        """Return the seconds of each phase and line of the loop, in every step after the warm-up."""
        return self._charges()

    def _charges(self) -> list[LineCharges]:
        self.clock.finish()
        steps: list[LineCharges] = []
        charges: LineCharges = {}
        previous = None
        for stamp, phase, line in self._marks:
            if phase == _STEP_END:
                steps.append(charges)
                charges = {}
                continue
            if previous is not None and phase != _EXCLUDED:
                key = phase, line
                charges[key] = charges.get(key, 0.0) + self.clock.seconds(previous, stamp)
            previous = stamp
        return steps[WARMUP_STEPS:]

    def overhead_seconds(self) -> float:
        """Return the seconds that the hooks add to a step: their calls and readings times the measured cost of each."""
        pairs = sum(phase != _STEP_END for _, phase, _ in self._marks) / 2
        readings = self._data_readings + (self.clock.readings if isinstance(self.clock, HostClock) else 0)
        return (pairs * _pair_cost(self) + readings * reading_cost()) / max(self.ended_steps, 1)

    def _kind(self, phase: str) -> str:
        """Return the phase of a pass: evaluation, if the model is in eval mode or gradients are disabled."""
        is_training = torch.is_grad_enabled() and self.setup.model.training
        return phase if is_training else "evaluation"

    def _begin_data(self, iterator: Any) -> None:
        is_evaluation = is_iterator_of(iterator, self.setup.val_loader)
        is_training = is_iterator_of(iterator, self.setup.train_loader)
        self.enter("evaluation" if is_evaluation and not is_training else "data")

        self._reading_started = host_seconds(), time.thread_time()

    def _end_data(self, _: Any) -> None:
        self.leave()
        self._data_readings += 2
        started, cpu_started = self._reading_started
        self.reading_seconds += host_seconds() - started
        self.reading_cpu_seconds += time.thread_time() - cpu_started

    def _begin_loader(self, loader: Any) -> None:
        is_evaluation = loader is self.setup.val_loader and loader is not self.setup.train_loader
        self.loader_starts += not is_evaluation
        self.enter("evaluation" if is_evaluation else "data")

    def _begin_forward(self, *_: Any) -> None:
        phase = self._kind("forward")
        self.training_passes += phase == "forward"
        self.enter(phase)

    def _begin_backward(self, _: Any) -> None:
        self.used_anomaly_mode |= torch.is_anomaly_enabled()
        self.enter("backward")

    def _begin_optimizer(self, optimizer: Any, *_: Any) -> None:
        if self._counted_optimizer is None:
            self._counted_optimizer = optimizer
            frames = list(user_lines(sys._getframe(1)))
            self.step_codes = tuple(code for code, _ in frames)
            self.step_lines = tuple(line for _, line in frames)
        self.enter("optimizer")

    def _end_optimizer(self, optimizer: Any, *_: Any) -> None:
        self.leave()
        if optimizer is self._counted_optimizer:
            self.end_step()

    def _end_transfer(self, tensor: Tensor) -> None:
        self.leave()
        size = tensor.numel() * tensor.element_size()
        self.transferred_bytes += size
        self.pinned_bytes += size if tensor.is_pinned() else 0


def call_loop(loop: Callable[[], object]) -> None:
    """Call a training loop; the frame of this function ends the walk along a stack of the loop."""
    loop()


def user_lines(frame: FrameType | None) -> Iterator[tuple[CodeType, SourceLine]]:
    """Yield the user's frames on a stack of the loop, innermost first, with their code and their line."""
    for _ in range(_MAX_DEPTH):
        if frame is None or frame.f_code is call_loop.__code__:
            return
        code = frame.f_code
        if is_user_code(code.co_filename):
            yield code, SourceLine(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)
        frame = frame.f_back


def _pair_cost(timer: LoopTimer) -> float:
    """Return the seconds of a pair of hooks around a call, as the median of several rounds."""
    plain, hooked = nn.Identity(), nn.Identity()
    twin = LoopTimer(timer.setup, 1, 1.0)
    value = torch.zeros(1, device=timer.device)
    costs = []
    with observe_forward_passes(hooked, lambda *_: twin.enter("forward"), lambda _: twin.leave()):
        for _ in range(_CALIBRATION_ROUNDS):
            costs.append(_call_seconds(hooked, value) - _call_seconds(plain, value))
    return max(median(costs), 0.0)


def _call_seconds(module: nn.Module, value: Tensor) -> float:
    """Return the seconds of one call."""
    started = host_seconds()
    for _ in range(_CALIBRATION_CALLS):
        module(value)
    return (host_seconds() - started) / _CALIBRATION_CALLS
