"""The two schedules that a rate is recommended for, and which of them the user's scheduler follows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from math import cos, pi
from typing import Any, Literal

import torch
from torch.optim import Optimizer

Schedule = Literal["constant", "one-cycle"]
SCHEDULES: tuple[Schedule, ...] = ("constant", "one-cycle")
_WARMUP_SHARE = 0.3  # of the steps, as in torch's OneCycleLR
_INITIAL_DIVISOR, _FINAL_DIVISOR = 25.0, 25e4  # of the peak, as in torch's OneCycleLR
_MAX_STEPS = 3000  # steps of a scheduler that are simulated
_RISE, _FALL = 3.0, 10.0  # a schedule of one-cycle kind rises and then falls at least by these factors


def schedule_rates(schedule: Schedule, rate: float, steps: int) -> tuple[float, ...]:
    """Return the rate of each step: ``rate`` throughout, or a one-cycle schedule with the peak ``rate``.

    Smith and Topin 2018, arXiv:1708.07120, with the cosines and the shares of torch's OneCycleLR.
    """
    if schedule == "constant":
        return (rate,) * steps
    peak_step = max(1, round(_WARMUP_SHARE * steps) - 1)
    return tuple(
        _between(rate / _INITIAL_DIVISOR, rate, step / peak_step)
        if step <= peak_step
        else _between(rate, rate / _FINAL_DIVISOR, (step - peak_step) / (steps - 1 - peak_step))
        for step in range(steps)
    )


def _between(start: float, end: float, share: float) -> float:
    """Return the value of a half cosine from start to end."""
    return end + (start - end) / 2 * (1 + cos(pi * share))


def leading_schedule(schedulers: Sequence[Any]) -> Schedule:
    """Return "one-cycle" if a scheduler raises the rate and lowers it again, whatever its class; else "constant"."""
    return "one-cycle" if any(map(_is_one_cycle, schedulers)) else "constant"


def _is_one_cycle(scheduler: Any) -> bool:
    """Check whether the rates of a scheduler start low, reach a peak and then fall."""
    rates = _simulate_rates(scheduler)
    peak = max(rates, default=0.0)
    if not rates or not peak or rates[0] > peak / _RISE:
        return False
    return min(rates[rates.index(peak) :]) <= peak / _FALL


def _simulate_rates(scheduler: Any) -> list[float]:
    """Return the rate of each step until the scheduler ends; empty if it cannot be copied or stepped.

    A copy is stepped, with an optimizer of its own without parameters, so the user's objects stay as they are.
    """
    optimizer, rates = getattr(scheduler, "optimizer", None), list[float]()
    if not isinstance(optimizer, Optimizer):
        return rates
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        substitute = torch.optim.SGD([torch.zeros(1)], 1.0)
        substitute.param_groups = [deepcopy({**group, "params": []}) for group in optimizer.param_groups]
        copy = deepcopy(scheduler, {id(optimizer): substitute})
        group = substitute.param_groups[0]
        if "min_lr" in group:  # a one-cycle schedule that is under way started from its initial rate
            rates.append(float(group["initial_lr"]))
        for _ in range(_MAX_STEPS):
            rates.append(float(group["lr"]))
            copy.step()
    return rates
