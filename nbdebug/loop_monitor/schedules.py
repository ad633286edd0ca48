"""Scheduler steps, their planned length, and the metric passed to a ReduceLROnPlateau."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import ReduceLROnPlateau

from nbdebug.hooks.training_events import observe_calls, observe_scheduler_steps
from nbdebug.loop_monitor.planned_rates import StandInOptimizer, UnreachedPeak, planned_rates
from nbdebug.setup.setup import unwrap_optimizer
from nbdebug.source.location import SourceLine, get_calling_line, is_debugger_code
from nbdebug.source.references import user_frames
from nbdebug.source.search import call_arguments, matches_call, parse_expressions

_MAX_PLATEAU_METRICS, _MIN_PLATEAU_METRICS, _MAX_LINE_ATTEMPTS = 1000, 4, 8
_EARLY_SHARE = 0.6  # of the rise of a score: in the first half of its values
_MAX_CREATION_LINES = 16  # of the functions around the creation of a scheduler
_LENGTH_ATTRIBUTES = (
    "total_steps",
    "T_max",
    "total_iters",
)  # of OneCycleLR, CosineAnnealingLR, LinearLR and PolynomialLR
_SCORE_NAME = re.compile(r"acc|f1|auc|score|iou|dice|precision|recall|r2|bleu|correct", re.IGNORECASE)
_LOSS_NAME = re.compile(r"loss|err|mse|mae|nll|perplexity|ppl", re.IGNORECASE)
_MIN_WARM_UP_BATCHES, _MAX_WARM_UP_EPOCHS = 10, 50  # a shorter one may count epochs, of a run that was stopped early
_EQUAL_RATES = 1e-9  # relative difference
Item = TypeVar("Item")
_MAX_ITEMS = 256


class _SteppingOptimizer(Protocol):
    """An optimizer of the loop, with the number of its steps."""

    steps: int

    @property
    def parameters(self) -> Sequence[torch.Tensor]:
        """All parameters of the optimizer."""


@dataclass
class SchedulerUse:
    """A scheduler and its steps in a loop, with the metrics passed to them and the user's line.

    ``precedes_optimizer`` is True if its first step came before any step of its optimizer. In ``changes`` of its steps,
    it changed the rate. Before ``idle_steps``, its optimizer had not stepped since its previous step, although another
    one with the same parameters had; before ``foreign_steps``, one with parameters of the same shapes. ``overwritten``
    counts the changes by each other scheduler that came directly after a change by this one. ``initial_rates`` are
    those of its optimizer before its first step in the loop, and ``previous_rates`` those that it had set before its
    latest one. ``highest_rate`` is that of the first group before any of its steps. ``replacement_line`` is the user's
    line that created the optimizer which stepped before the first of ``idle_steps``, if the loop created it.
    """

    scheduler: Any
    steps: int = 0
    plateau_metrics: list[float] = field(default_factory=list)
    line: SourceLine | None = None
    precedes_optimizer: bool = False
    changes: int = 0
    idle_steps: int = 0
    foreign_steps: int = 0
    overwritten: Counter[int] = field(default_factory=Counter)
    optimizer_steps: int = 0
    all_steps: int = 0
    initial_rates: tuple[float, ...] = ()
    previous_rates: tuple[float, ...] = ()
    highest_rate: float = 0.0
    replacement_line: SourceLine | None = None

    def is_undone_by(self, other: SchedulerUse, min_changes: int) -> bool:
        """Check whether another scheduler undoes the changes of this one: it does not depend on the current rate."""
        return self.overwritten[id(other.scheduler)] >= min_changes and replaces_rate(other.scheduler)


class SchedulerMonitor:
    """Counts the steps of each scheduler, and records the metrics passed to them and the user's line.

    ``known`` are schedulers that the user passed; others are observed if their class derives from torch's. ``created``
    are those that are created while the loop runs, and ``creation_lines`` the user's lines on the stack of each
    creation, by identity, innermost first. ``tracked_optimizers`` are the optimizers of the loop, by identity, and
    ``optimizer_lines`` the lines that created optimizers while the loop ran.
    """

    def __init__(self, known: Sequence[Any], tracked_optimizers: Mapping[int, _SteppingOptimizer]) -> None:
        self.uses = {id(scheduler): SchedulerUse(scheduler) for scheduler in known}
        self.tracked_optimizers = tracked_optimizers
        self.latest: dict[int, tuple[SchedulerUse, float, SchedulerUse | None]] = {}
        self.created: list[Any] = []
        self.creation_lines: dict[int, tuple[SourceLine, ...]] = {}
        self.optimizer_lines: dict[int, SourceLine] = {}

    def hooks(self, wrap_callback: Callable[..., Any]) -> list[AbstractContextManager[None]]:
        """Return hooks on the creation of optimizers, and on the steps of schedulers.

        The schedulers are those of all torch classes, and of other classes that the user passed. ``wrap_callback``
        wraps each callback.
        """
        callback = wrap_callback(self.record_step)
        classes = [kind for kind in vars(lr_scheduler).values() if isinstance(kind, type) and "step" in vars(kind)]
        others = [type(use.scheduler) for use in self.uses.values() if not isinstance(use.scheduler, tuple(classes))]
        stepping = (kind for kind in dict.fromkeys([*classes, *others]) if hasattr(kind, "step"))
        created = observe_calls(torch.optim.Optimizer, "__init__", wrap_callback(self.record_optimizer))
        return [created, *(observe_scheduler_steps(kind, callback) for kind in stepping)]

    def record_optimizer(self, optimizer: Any) -> None:
        """Record the line of the user's code that creates an optimizer, outside the constructors of its own class."""
        constructors = {getattr(vars(kind).get("__init__"), "__code__", None) for kind in type(optimizer).__mro__}
        frames = user_frames(sys._getframe(1))
        if frame := next((frame for frame in frames if frame.f_code not in constructors), None):
            line = SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            self.optimizer_lines[id(optimizer)] = line

    def record_step(self, call: tuple[Any, Any, Any]) -> None:
        """Record a scheduler step. Most schedulers step once an epoch, so the line may come late.

        A step inside that of another scheduler of torch, of a base class, or of the constructor is not counted.
        """
        scheduler, frame = call[0], sys._getframe(1)
        if isinstance(getattr(scheduler, "optimizer", None), StandInOptimizer):  # the copy of a scheduler
            return
        if getattr(scheduler, "_step_count", None) == 0:
            self.created.append(scheduler)
            frames = user_frames(frame)
            lines = (SourceLine(user.f_code.co_filename, user.f_lineno, user.f_code.co_name) for user in frames)
            self.creation_lines[id(scheduler)] = tuple(islice(lines, _MAX_CREATION_LINES))
        if _calling_file(frame) == lr_scheduler.__file__:
            return
        use = self.uses.setdefault(id(scheduler), SchedulerUse(scheduler))
        if use.line is None and use.steps < _MAX_LINE_ATTEMPTS:
            use.line = get_calling_line(frame)
        if not use.steps:
            use.precedes_optimizer = _precedes_optimizer(scheduler)
            groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", ())
            use.initial_rates = tuple(float(group["lr"]) for group in groups)
        use.previous_rates = _latest_rates(scheduler)
        use.steps += 1
        self.record_change(use)
        self.record_idle_optimizer(use)
        if len(use.plateau_metrics) < _MAX_PLATEAU_METRICS:
            use.plateau_metrics.extend(_plateau_metric(*call))

    def record_change(self, use: SchedulerUse) -> None:
        """Record before a step of a scheduler whether the latest step on the same optimizer changed the rate.

        Two changes in a row by different schedulers count for the first of them.
        """
        optimizer = _get_optimizer(use.scheduler)
        if not isinstance(optimizer, torch.optim.Optimizer):
            return
        rate = float(optimizer.param_groups[0]["lr"])
        use.highest_rate = max(use.highest_rate, rate)
        earlier, earlier_rate, first = self.latest.get(id(optimizer), (use, rate, None))
        has_changed = abs(rate - earlier_rate) > _EQUAL_RATES * abs(earlier_rate)
        self.latest[id(optimizer)] = use, rate, earlier if has_changed and earlier is not use else None
        if has_changed:
            earlier.changes += 1
            if first is not None:
                first.overwritten[id(earlier.scheduler)] += 1

    def record_idle_optimizer(self, use: SchedulerUse) -> None:
        """Record whether another optimizer has taken the place of that of a scheduler since its previous step."""
        all_steps = sum([tracked.steps for tracked in self.tracked_optimizers.values()])
        own = self.tracked_optimizers.get(id(_get_optimizer(use.scheduler)))
        own_steps = own.steps if own else use.optimizer_steps
        if own_steps == use.optimizer_steps and all_steps > use.all_steps:
            if successors := _successors(use.scheduler, own, self):
                line = self.optimizer_lines.get(successors[-1])
                use.idle_steps, use.replacement_line = use.idle_steps + 1, use.replacement_line or line
            elif own_steps == 0:
                use.foreign_steps += _is_of_other_model(use.scheduler, self)
        use.optimizer_steps, use.all_steps = own_steps, all_steps

    def effective_steps(self, optimizer: torch.optim.Optimizer | None) -> int:
        """Return the steps of the schedulers that have changed the rate before the latest step of an optimizer."""
        tracked = self.tracked_optimizers.get(id(optimizer))
        own = (use for use in self.uses.values() if _get_optimizer(use.scheduler) is optimizer)
        steps = tracked.steps if tracked else 0
        return sum(use.steps for use in own if _has_changed_rate(use, precedes_step=steps > use.optimizer_steps))


def _has_changed_rate(use: SchedulerUse, *, precedes_step: bool) -> bool:
    """Check whether a scheduler has set another rate than its optimizer had before its first step in the loop.

    Its latest step counts if it precedes a step of the optimizer.
    """
    rates = _latest_rates(use.scheduler) if precedes_step else use.previous_rates
    pairs = zip(rates, use.initial_rates, strict=False)
    return any(abs(rate - initial) > _EQUAL_RATES * abs(initial) for rate, initial in pairs)


def _latest_rates(scheduler: Any) -> tuple[float, ...]:
    """Return the rates that a scheduler has set last, one for each parameter group; empty if it does not store them."""
    return tuple(float(rate) for rate in getattr(scheduler, "_last_lr", None) or ())


def _successors(scheduler: Any, own: _SteppingOptimizer | None, monitor: SchedulerMonitor) -> list[int]:
    """Return the identities of the other optimizers that step and hold parameters of the optimizer of a scheduler."""
    parameter_ids = set(map(id, _scheduled_parameters(scheduler)))
    others = [item for item in monitor.tracked_optimizers.items() if item[1] is not own and item[1].steps]
    return [key for key, tracked in others if any(id(p) in parameter_ids for p in tracked.parameters)]


def _is_of_other_model(scheduler: Any, monitor: SchedulerMonitor) -> bool:
    """Check whether one optimizer that steps holds parameters of the same shapes as the optimizer of a scheduler."""
    shapes = Counter(parameter.shape for parameter in _scheduled_parameters(scheduler))
    stepping = (tracked.parameters for tracked in monitor.tracked_optimizers.values() if tracked.steps)
    return bool(shapes) and any(Counter(p.shape for p in parameters) == shapes for parameters in stepping)


def _scheduled_parameters(scheduler: Any) -> list[torch.Tensor]:
    groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", ())
    return [parameter for group in groups for parameter in group["params"]]


def replaces_rate(scheduler: Any) -> bool:
    """Check whether the next rates of a scheduler do not depend on the current ones; leaves it as it was.

    Raises nothing: a scheduler that cannot be asked is taken to change the current rates.
    """
    groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", ())
    settings = [{name: value for name, value in group.items() if name != "params"} for group in groups]
    try:
        with lr_scheduler._enable_get_lr_call(scheduler), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            usual = [float(rate) for rate in scheduler.get_lr()]
            for group in groups:
                group["lr"] = group["lr"] * 0.5
            halved = [float(rate) for rate in scheduler.get_lr()]
    except Exception:
        return False
    finally:
        for group, setting in zip(groups, settings, strict=True):
            group.update(setting)
    return any(usual) and usual == halved


def _get_optimizer(scheduler: Any) -> Any:
    """Return the optimizer of a scheduler, without the wrapper that Accelerate puts around one."""
    optimizer = getattr(scheduler, "optimizer", None)
    inner = unwrap_optimizer(optimizer)
    return inner[0] if len(inner) == 1 else optimizer


def _precedes_optimizer(scheduler: Any) -> bool:
    """Check whether the optimizer of a scheduler has not stepped yet; torch marks both for the same question."""
    optimizer = getattr(scheduler, "optimizer", None)
    is_marked = hasattr(getattr(optimizer, "step", None), "_wrapped_by_lr_sched")
    return is_marked and not getattr(optimizer, "_opt_called", False)


def _calling_file(frame: FrameType | None) -> str:
    """Return the file of the code that called into the debugger, or that called the ``step`` that did."""
    while frame is not None and (is_debugger_code(frame.f_code.co_filename) or _is_overriding_step(frame)):
        frame = frame.f_back
    return frame.f_code.co_filename if frame else ""


def _is_overriding_step(frame: FrameType) -> bool:
    """Check whether a frame runs a step method of a user's own scheduler."""
    is_step = frame.f_code.co_name == "step" and frame.f_code.co_filename != lr_scheduler.__file__
    return is_step and isinstance(frame.f_locals.get("self"), lr_scheduler.LRScheduler)


def _plateau_metric(scheduler: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the metric passed to a step of ReduceLROnPlateau; empty for other schedulers."""
    value = args[0] if args else kwargs.get("metrics")
    return (float(value),) if isinstance(scheduler, ReduceLROnPlateau) and value is not None else ()


def planned_length(scheduler: Any) -> int | None:
    """Return the number of scheduler steps that a schedule is planned for, if it has one."""
    lengths = (getattr(scheduler, name, None) for name in _LENGTH_ATTRIBUTES)
    return next((length for length in lengths if isinstance(length, int) and length > 1), None)


def unfinished_length(scheduler: Any, steps: int) -> int | None:
    """Return the length of a schedule, or of its first constant part, if ``steps`` are fewer than half of it."""
    milestones = getattr(scheduler, "milestones", None)
    first_change = min(milestones) if milestones else getattr(scheduler, "step_size", None)
    length = planned_length(scheduler) or first_change
    return length if isinstance(length, int) and 0 < steps < length / 2 else None


def unreached_rate(use: SchedulerUse, batches: int) -> UnreachedPeak | None:
    """Return the peak of the rate that a scheduler did not reach, if half as many steps as batches would.

    The steps may count epochs if the peak is one of the first.
    """
    optimizer = _get_optimizer(use.scheduler)
    if not isinstance(optimizer, torch.optim.Optimizer) or not 0 < use.steps < batches / 2:
        return None
    reached = max(use.highest_rate, float(optimizer.param_groups[0]["lr"]))
    rates = planned_rates(use.scheduler, batches // 2 + 1 - use.steps)
    planned = max(rates, default=0.0)
    position = next((number for number, rate in enumerate(rates) if rate >= (1 - _EQUAL_RATES) * planned), 0)
    step = use.steps + position + 1
    # With many batches for each step of the scheduler, so short a warm-up counts epochs: vision transformers have 40.
    least = min(max(_MIN_WARM_UP_BATCHES, batches / use.steps / 2), _MAX_WARM_UP_EPOCHS)
    has_peak = position < len(rates) - 1 and step >= least
    return UnreachedPeak(reached, planned, step) if has_peak and reached < planned / 2 else None


def required_plateau_mode(
    scheduler: Any,
    metrics: Sequence[float],
    samples: int | None,
    line: SourceLine | None,
    losses: Sequence[float],
) -> str | None:
    """Return the mode that a ReduceLROnPlateau needs, if it has the other one and its metric moved against it.

    The metric is a score by its name in the call, if each value is a fraction of the validation ``samples``, or if it
    rises from the beginning while the training ``losses`` fall, at another level than these. It is a loss if it keeps
    to the training ``losses`` of the same time, by its name, or if it decreases steadily and is no such fraction.
    """
    if not isinstance(scheduler, ReduceLROnPlateau) or len(metrics) < _MIN_PLATEAU_METRICS:
        return None
    is_rising, source_text = metrics[-1] > metrics[0], _step_argument_text(line)
    if scheduler.mode == "min" and is_rising and not _LOSS_NAME.search(source_text):
        is_score = _SCORE_NAME.search(source_text) or _are_sample_fractions(metrics, samples)
        return "max" if is_score or _rises_while_losses_fall(metrics, losses) else None
    if scheduler.mode == "max" and not is_rising:
        is_steady = _decreases_steadily(metrics) and not _are_sample_fractions(metrics, samples)
        is_loss = _LOSS_NAME.search(source_text) or (is_steady and not _SCORE_NAME.search(source_text))
        return "min" if is_loss or _keeps_to_losses(metrics, losses) else None
    return None


def _rises_while_losses_fall(metrics: Sequence[float], losses: Sequence[float]) -> bool:
    """Check whether a metric from 0 to 1 is lowest at the beginning, rises by a fifth, and is no loss by its level.

    The loss of validation samples starts at the level of the training losses, if these are means too, and falls before
    it rises. A score gains most in the first half of the run, unlike a loss that rises as the model overfits.
    """
    levels = _levels(losses, len(metrics))
    if not levels or min(metrics) < 0 or max(metrics) > 1 or metrics[-1] < metrics[0] + 0.2:
        return False
    is_lowest_first = metrics.index(min(metrics)) < len(metrics) / 4
    is_early = metrics[len(metrics) // 2] - metrics[0] > _EARLY_SHARE * (metrics[-1] - metrics[0])
    is_at_level = levels[0] / 4 <= metrics[0] <= 4 * levels[0]
    return is_lowest_first and is_early and levels[-1] < 0.9 * levels[0] and not is_at_level


def _keeps_to_losses(metrics: Sequence[float], losses: Sequence[float]) -> bool:
    """Check whether a metric decreased by half or more, and was always within a factor of four of the losses."""
    levels = _levels(losses, len(metrics))
    if not levels or metrics[-1] > 0.5 * metrics[0]:
        return False
    return all(level / 4 <= metric <= 4 * level for metric, level in zip(metrics, levels, strict=True))


def _levels(losses: Sequence[float], count: int) -> list[float]:
    """Return the mean losses of as many equal parts of the run; empty for fewer losses."""
    if len(losses) < count:
        return []
    return [float(chunk.mean()) for chunk in np.array_split(np.asarray(losses, dtype=float), count)]


def _decreases_steadily(metrics: Sequence[float]) -> bool:
    """Check whether a metric lost a tenth or more, and decreased at three of four steps or more."""
    falls = sum(after < before for before, after in pairwise(metrics))
    return metrics[-1] < 0.9 * metrics[0] and falls >= 0.75 * (len(metrics) - 1)


def _step_argument_text(line: SourceLine | None) -> str:
    """Return the source text of the arguments of ``step`` calls in a line."""
    nodes = parse_expressions(line.file) if line else ()
    calls = [node for node in nodes if isinstance(node, ast.Call) and matches_call("step")(node)]
    calls_on_line = [node for node in calls if line and node.lineno <= line.number <= (node.end_lineno or node.lineno)]
    return " ".join(ast.unparse(argument) for node in calls_on_line for argument in call_arguments(node))


def _are_sample_fractions(metrics: Sequence[float], samples: int | None, *, tolerance: float = 1e-3) -> bool:
    """Check whether each value is a whole number of samples, as a fraction or in percent, and the values differ."""
    if not samples or not all(0 <= value <= 100 for value in metrics):
        return False
    counts = [value * samples / (100 if max(metrics) > 1 else 1) for value in metrics]
    return len(set(metrics)) > 2 and all(abs(value - round(value)) < tolerance for value in counts)


class ThinnedStream(Generic[Item]):
    """At most 256 evenly spaced items of a stream of any length."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.count, self.stride = 0, 1

    def add(self, item: Item) -> None:
        """Add an item if its turn has come."""
        if self.count % self.stride == 0:
            self.items.append(item)
            if len(self.items) >= _MAX_ITEMS:
                del self.items[1::2]
                self.stride *= 2
        self.count += 1
