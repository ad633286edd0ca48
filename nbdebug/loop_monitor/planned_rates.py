"""The rates that a scheduler would set in further steps, computed on a copy of it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

_MAX_STEPS = 20_000


class StandInOptimizer:
    """The settings of the groups of an optimizer, without its parameters, which a copy of a scheduler changes."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups = [
            {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups
        ]

    def step(self) -> None:
        """Do nothing: a scheduler only looks whether there is such a method."""


def planned_rates(scheduler: Any, steps: int) -> list[float]:
    """Return the rates of the first group after each of ``steps`` further steps; empty if they cannot be computed.

    The scheduler and its optimizer stay as they are.
    """
    optimizer = getattr(scheduler, "optimizer", None)
    if not getattr(optimizer, "param_groups", None) or not 0 < steps <= _MAX_STEPS:
        return []
    rates = []
    try:
        stand_in = StandInOptimizer(optimizer)
        following = copy.deepcopy(scheduler, {id(optimizer): stand_in})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(steps):
                following.step()
                rates.append(float(stand_in.param_groups[0]["lr"]))
    except Exception:  # a schedule may end, or need a metric
        return rates
    return rates
