"""How a schedule and its optimizer begin when a loop resumes earlier training."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from nbdebug.hooks.training_events import observe_call_arguments
from nbdebug.loop_monitor.schedules import SchedulerMonitor, replaces_rate
from nbdebug.source.location import SourceLine, get_calling_line

_MAX_STARTS = 64  # of schedules; a loop may create one in each step


@dataclass(frozen=True)
class OptimizerState:
    """The state of an optimizer: its steps (0 if it does not count them), and the rates of its first group.

    ``initial_rate`` is the one that a schedule began with, None if there was none. ``line`` loaded the state.
    """

    is_empty: bool
    steps: int
    rate: float
    initial_rate: float | None
    line: SourceLine | None = None


@dataclass(frozen=True)
class ScheduleStart:
    """A schedule at the first step that its optimizer makes in a loop, or after a state was loaded.

    ``position`` counts the steps of the schedule before those of the loop. ``planned_rate`` is its rate where it
    stands, None if it cannot be computed, and ``rate`` the one of that optimizer step, in the first group. ``loaded``
    is the state that was loaded into the optimizer, None if there was none. ``is_resumed`` tells whether the schedule
    was moved without an optimizer step. ``replaces_rate`` tells whether its next rate does not depend on the current.
    ``creation_line`` is that of the function that had loaded the state, if it created the schedule after that.
    """

    scheduler: Any
    position: int
    planned_rate: float | None
    rate: float
    loaded: OptimizerState | None
    lacks_state: bool
    is_resumed: bool
    replaces_rate: bool
    creation_line: SourceLine | None = None


class ResumptionMonitor:
    """Records how schedules begin, and which optimizer states are loaded."""

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer], schedulers: SchedulerMonitor) -> None:
        self.uses, self.created, self.creation_lines = schedulers.uses, schedulers.created, schedulers.creation_lines
        self.processed: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()
        self.started: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.loaded: weakref.WeakKeyDictionary[torch.optim.Optimizer, OptimizerState] = weakref.WeakKeyDictionary()
        self.unstepped: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.starts: list[ScheduleStart] = []
        for optimizer in optimizers:
            if _has_loaded_state(optimizer):
                self.loaded[optimizer] = _read_state(optimizer.state_dict())
            if _has_never_stepped(optimizer):
                self.unstepped.add(optimizer)

    def hooks(self, wrap_callback: Callable[..., Any]) -> list[AbstractContextManager[None]]:
        """Return a hook on the states that are loaded into optimizers."""
        callback = wrap_callback(self.on_optimizer_load)
        return [observe_call_arguments(torch.optim.Optimizer, "load_state_dict", callback)]

    def on_optimizer_load(self, call: tuple[Any, Any, Any]) -> None:
        """Record a state that is about to be loaded into an optimizer."""
        optimizer, args, kwargs = call
        state = args[0] if args else kwargs.get("state_dict")
        if isinstance(state, Mapping) and state.get("param_groups"):
            self.loaded[optimizer] = _read_state(state, get_calling_line(sys._getframe(1)))
            self.started.discard(optimizer)

    def on_step_begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the schedule of an optimizer before its first step, and before the first one after a change."""
        processed = self.processed.get(optimizer, 0)
        is_known = optimizer in self.started and processed == len(self.created)
        if is_known or len(self.starts) >= _MAX_STARTS:
            return
        self.started.add(optimizer)
        created, self.processed[optimizer] = self.created[processed:], len(self.created)
        loaded = self.loaded.pop(optimizer, None)
        is_unstepped = optimizer in self.unstepped
        self.unstepped.discard(optimizer)
        known = [use.scheduler for use in self.uses.values()]
        scheduler = _single_schedule(optimizer, created) or _single_schedule(optimizer, known)
        if scheduler is not None:
            use = self.uses.get(id(scheduler))
            is_resumed = is_unstepped or any(scheduler is other for other in created)
            # One step may precede the first one of the optimizer. A schedule that made more is running already.
            if use is not None and use.steps > 1 and not is_resumed:
                loaded = None
            start = _schedule_start(scheduler, optimizer, loaded, use.steps if use else 0, is_resumed=is_resumed)
            lines = self.creation_lines.get(id(scheduler), ())
            self.starts.append(replace(start, creation_line=_later_line(lines, loaded.line if loaded else None)))

    def summary(self) -> tuple[ScheduleStart, ...]:
        """Return how each schedule began, unless another one whose start is unknown changed the same optimizer."""
        known_ids = {id(start.scheduler) for start in self.starts}
        stepped = [use.scheduler for key, use in self.uses.items() if use.steps and key not in known_ids]
        other_optimizer_ids = {id(getattr(scheduler, "optimizer", None)) for scheduler in stepped}
        return tuple(start for start in self.starts if id(start.scheduler.optimizer) not in other_optimizer_ids)


def _later_line(lines: Sequence[SourceLine], loading: SourceLine | None) -> SourceLine | None:
    """Return the line on a stack that the function of another line reaches after it."""
    own = [line for line in lines if loading and (line.file, line.function) == (loading.file, loading.function)]
    return next((line for line in own if loading and line.number > loading.number), None)


def initial_starts(optimizers: Iterable[torch.optim.Optimizer], schedulers: Sequence[Any]) -> list[ScheduleStart]:
    """Return how the schedules of a program begin that has not made a step."""
    starts = []
    for optimizer in optimizers:
        scheduler = _single_schedule(optimizer, schedulers)
        if scheduler is not None and _has_never_stepped(optimizer):
            loaded = _read_state(optimizer.state_dict()) if _has_loaded_state(optimizer) else None
            starts.append(_schedule_start(scheduler, optimizer, loaded, 0, is_resumed=True))
    return starts


def _schedule_start(
    scheduler: Any, optimizer: torch.optim.Optimizer, loaded: OptimizerState | None, steps: int, *, is_resumed: bool
) -> ScheduleStart:
    """Describe a schedule that has made ``steps`` steps in the loop."""
    return ScheduleStart(
        scheduler,
        int(scheduler.last_epoch) - steps,
        planned_rate(scheduler),
        float(optimizer.param_groups[0]["lr"]),
        loaded,
        keeps_state(optimizer) and not optimizer.state,
        is_resumed,
        replaces_rate(scheduler),
    )


def _single_schedule(optimizer: torch.optim.Optimizer, schedulers: Sequence[Any]) -> Any:
    """Return the only scheduler of torch's kind that changes an optimizer; None if there is none, or more than one."""
    parts = {id(part) for scheduler in schedulers for part in getattr(scheduler, "_schedulers", ())}
    own = {
        id(scheduler): scheduler
        for scheduler in schedulers
        if getattr(scheduler, "optimizer", None) is optimizer and id(scheduler) not in parts
    }
    scheduler = next(iter(own.values()), None)
    is_known = isinstance(scheduler, LRScheduler) and not isinstance(scheduler, ReduceLROnPlateau)
    return scheduler if len(own) == 1 and is_known else None


def _has_never_stepped(optimizer: torch.optim.Optimizer) -> bool:
    """Check whether an optimizer with a scheduler has not made a step; torch marks its ``step`` and its first call."""
    return hasattr(optimizer.step, "_wrapped_by_lr_sched") and not getattr(optimizer, "_opt_called", False)


def _has_loaded_state(optimizer: torch.optim.Optimizer) -> bool:
    """Check whether an optimizer has a state although it has not made a step."""
    return bool(optimizer.state) and _has_never_stepped(optimizer)


def _read_state(state: Mapping[str, Any], line: SourceLine | None = None) -> OptimizerState:
    """Read the state of an optimizer in the form of its ``state_dict()``."""
    group, values = state["param_groups"][0], [*state.get("state", {}).values()]
    counts = [value.get("step", 0) for value in values if isinstance(value, Mapping)]
    initial_rate = group.get("initial_lr")
    return OptimizerState(
        is_empty=not any(values),
        steps=int(max(map(float, counts), default=0)),
        rate=float(group["lr"]),
        initial_rate=None if initial_rate is None else float(initial_rate),
        line=line,
    )


def planned_rate(scheduler: Any) -> float | None:
    """Return the rate of the first group that a schedule plans where it stands, whatever the rate is now.

    Leaves the scheduler and its optimizer as they were, and raises nothing.
    """
    groups = scheduler.optimizer.param_groups
    settings = [{name: value for name, value in group.items() if name != "params"} for group in groups]
    has_closed_form = hasattr(scheduler, "_get_closed_form_lr")
    if not has_closed_form and not replaces_rate(scheduler):
        return None
    try:
        with lr_scheduler._enable_get_lr_call(scheduler), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rates = scheduler._get_closed_form_lr() if has_closed_form else scheduler.get_lr()
        return float(rates[0])
    except Exception:
        return None
    finally:
        for group, setting in zip(groups, settings, strict=True):
            group.update(setting)


def keeps_state(optimizer: torch.optim.Optimizer) -> bool:
    """Check whether a step of an optimizer of torch depends on earlier ones."""
    groups = optimizer.param_groups
    is_stateless = isinstance(optimizer, torch.optim.SGD) and not any(group["momentum"] for group in groups)
    is_trained = any(isinstance(p, Tensor) and p.requires_grad for group in groups for p in group["params"])
    return type(optimizer).__module__.startswith("torch.optim") and is_trained and not is_stateless
