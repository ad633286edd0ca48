"""What a schedule says that does not begin where its optimizer does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.finding import Severity
from nbdebug.loop_monitor.rate_history import RateHistory
from nbdebug.loop_monitor.resumption import OptimizerState, ScheduleStart
from nbdebug.loop_monitor.schedules import SchedulerUse, planned_length

_MAX_RATE_RATIO = 1.5  # between the rate and its plan: the smallest step of a usual schedule is a factor of two
_RATE_TOLERANCE = 0.01  # relative; a schedule that multiplies its rate step by step deviates by rounding
_ENDED_SHARE, _ZERO_SHARE = 0.01, 1e-6  # of the initial rate
_MIN_POSITION = 2  # a loop may step the schedule once before the optimizer


@dataclass(frozen=True)
class ResumptionFault:
    """A schedule and an optimizer that were not resumed together; ``texts`` are message, cause and fix."""

    aspect: str
    texts: tuple[str, str, str]
    evidence: dict[str, Any]
    severity: Severity | None = None


def describe_resumption(start: ScheduleStart) -> ResumptionFault | None:
    """Return the fault of a schedule that does not begin where its optimizer does; None if both agree."""
    if start.loaded is not None and _begins_again(start, start.loaded):
        return _describe_new_schedule(start, start.loaded)
    if not start.is_resumed or start.position < 1:
        return None
    if start.planned_rate is not None and not start.replaces_rate and _is_off_plan(start.rate, start.planned_rate):
        return _describe_rate(start, start.planned_rate)
    return _describe_missing_state(start) if start.lacks_state and start.position >= _MIN_POSITION else None


def describe_ended_schedule(scheduler: Any, steps: int, optimizer_steps: int) -> tuple[str, str, str] | None:
    """Return message, cause and fix of a schedule that had ended before a loop, which made ``steps`` of it; else None.

    Its rate is then below a hundredth of the initial one.
    """
    length, position = planned_length(scheduler), getattr(scheduler, "last_epoch", 0)
    optimizer, initial_rates = getattr(scheduler, "optimizer", None), getattr(scheduler, "base_lrs", [])
    rates = [float(group["lr"]) for group in getattr(optimizer, "param_groups", [])]
    if steps or length is None or position < length or not rates or len(rates) != len(initial_rates):
        return None
    if any(rate > _ENDED_SHARE * initial for rate, initial in zip(rates, initial_rates, strict=True)):
        return None
    return (
        f"{type(scheduler).__name__} had ended before the loop: it stands at step {position} of {length}, so the "
        f"learning rate was {max(rates):.3g} in all {optimizer_steps} optimizer steps.",
        "The state of a schedule that had ended was loaded.",
        "Load the state of the model only, and create a new optimizer and scheduler.",
    )


def describe_late_start(use: SchedulerUse, rates: RateHistory) -> tuple[str, str, str] | None:
    """Return message, cause and fix of a schedule that had run down before its first step in a loop; else None.

    It had been moved then, and every rate of its optimizer was below a hundredth of the initial one; a rate that stays
    is as good as zero.
    """
    position = getattr(use.scheduler, "last_epoch", 0) - use.steps
    initial_rates = getattr(use.scheduler, "base_lrs", [])
    if not use.steps or position < _MIN_POSITION or not use.initial_rates or not all(initial_rates):
        return None
    ratios = [rate / initial for rate, initial in zip(use.initial_rates, initial_rates, strict=False)]
    if max(ratios) > (_ZERO_SHARE if rates.is_constant else _ENDED_SHARE):
        return None
    course = f"{rates.low_share:.0%} of {rates.steps} optimizer steps ran at less than 1 % of the highest rate"
    course = f"all {rates.steps} optimizer steps ran at that rate" if rates.is_constant else course
    return (
        f"{type(use.scheduler).__name__} stood at step {position} before the loop, at a learning rate of "
        f"{max(use.initial_rates):.3g}; its initial rate is {max(initial_rates):.3g}. In the loop, {course}.",
        "The schedule had run down before the loop: its state was loaded, or it was stepped.",
        "Load the state of the model only, and create a new optimizer and scheduler.",
    )


_LOAD_SCHEDULER = 'scheduler.load_state_dict(checkpoint["scheduler"])   # saved as scheduler.state_dict()'
_LOAD_BOTH = (
    'optimizer.load_state_dict(checkpoint["optimizer"])   # after the scheduler was created, which sets the rate\n'
    'scheduler.load_state_dict(checkpoint["scheduler"])   # saved as scheduler.state_dict()'
)


def describe_restored_rate(optimizer: torch.optim.Optimizer, steps: int) -> tuple[str, str, str] | None:
    """Return message, cause and fix of an optimizer whose rate an earlier schedule has lowered to its end; else None.

    A scheduler leaves its initial rate in the groups. The rate that the optimizer was created with is in its defaults.
    """
    created, groups = float(optimizer.defaults.get("lr", 0.0)), optimizer.param_groups
    rates = [float(group["lr"]) for group in groups if "lr" in group and "initial_lr" in group]
    if not rates or len(rates) < len(groups) or not 0 < max(rates) < _ENDED_SHARE * created:
        return None
    return (
        f"The learning rate was {max(rates):.3g} in all {steps} optimizer steps. The optimizer was created with "
        f"{created:.3g}, and no scheduler changed the rate in the loop.",
        "The state of the optimizer was taken from an earlier run, in which a schedule had already lowered the rate.",
        f"for group in optimizer.param_groups:\n    group['lr'] = {created:.3g}   # after load_state_dict",
    )


def _begins_again(start: ScheduleStart, loaded: OptimizerState) -> bool:
    """Check whether a new schedule begins beside a loaded state that an earlier schedule had changed.

    A state that was loaded before the loop names the initial rate of any schedule, also of the new one; the new one did
    not make its rate if it plans another.
    """
    if start.position != 0 or loaded.is_empty or loaded.initial_rate is None:
        return False
    planned = start.planned_rate
    return loaded.line is not None or (planned is not None and abs(start.rate - planned) > _RATE_TOLERANCE * planned)


def _is_off_plan(rate: float, planned: float) -> bool:
    return max(rate, planned) > _MAX_RATE_RATIO * min(rate, planned)


def _describe_new_schedule(start: ScheduleStart, loaded: OptimizerState) -> ResumptionFault:
    kind = type(start.scheduler).__name__
    steps = f" after {loaded.steps:,} steps" if loaded.steps else ""
    first = f"{start.rate:.3g}" + (f" instead of {loaded.rate:.3g}" if start.rate != loaded.rate else "")
    return ResumptionFault(
        "new schedule",
        (
            f"{kind} begins at step 0 of its schedule, but the state of its optimizer was saved{steps}, at a rate of "
            f"{loaded.rate:.3g}, in a schedule that had begun at {loaded.initial_rate:.3g}. The first step uses "
            f"{first}.",
            "The optimizer was resumed, but the scheduler was created again, and its state was not loaded.",
            _LOAD_BOTH if start.rate != loaded.rate else _LOAD_SCHEDULER,
        ),
        {"position": start.position, "saved steps": loaded.steps, "saved rate": loaded.rate, "rate": start.rate},
    )


def _describe_rate(start: ScheduleStart, planned: float) -> ResumptionFault:
    kind = type(start.scheduler).__name__
    cause = (
        "The scheduler was moved to this step, but the state of the optimizer, which contains the rate, was not loaded."
        if start.lacks_state or start.loaded is None
        else "The rate in the state of the optimizer does not belong to this step of the schedule."
    )
    return ResumptionFault(
        "rate",
        (
            f"{kind} is at step {start.position} of its schedule, which plans a rate of {planned:.3g} there, but the "
            f"optimizer uses {start.rate:.3g}. The schedule multiplies the current rate, so the difference stays.",
            cause,
            'optimizer.load_state_dict(checkpoint["optimizer"])   # after the scheduler was created\n'
            'scheduler.load_state_dict(checkpoint["scheduler"])',
        ),
        {"position": start.position, "planned rate": planned, "rate": start.rate},
    )


def _describe_missing_state(start: ScheduleStart) -> ResumptionFault:
    kind, optimizer = type(start.scheduler).__name__, type(start.scheduler.optimizer).__name__
    return ResumptionFault(
        "missing state",
        (
            f"{kind} is at step {start.position} of its schedule, but the state of {optimizer} is empty: its averages "
            "of the gradients begin at zero.",
            "The schedule was resumed, but the state of the optimizer was not loaded.",
            'optimizer.load_state_dict(checkpoint["optimizer"])   # saved as optimizer.state_dict()',
        ),
        {"position": start.position, "rate": start.rate},
        "note",
    )
