"""The factors that the function of a scheduler plans, and the rates that a copy of a scheduler sets."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader

from nbdebug.setup.schedule_lines import is_function

_MAX_STEPS, _MAX_EVALUATED_STEPS = 20_000, 100_000  # of a copy, and of a function of the step
_MAX_INITIAL_RATE, _RATE_TOLERANCE = 0.3, 0.01  # of a factor that is taken for a rate


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
    if not getattr(optimizer, "param_groups", None) or not 0 < steps <= _MAX_STEPS or _holds_more(scheduler):
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


def _holds_more(scheduler: Any) -> bool:
    """Check whether a scheduler of the user's holds a model, a tensor or a loader, which a copy would copy, too."""
    return any(
        isinstance(value, (nn.Module, Tensor, DataLoader)) for value in getattr(scheduler, "__dict__", {}).values()
    )


@dataclass(frozen=True)
class UnreachedPeak:
    """The largest factor or rate that a schedule reached, and the larger one that it plans for a later ``step``."""

    reached: float
    planned: float
    step: int


def unreached_peak(scheduler: Any, steps: int, batches: int) -> UnreachedPeak | None:
    """Return the peak of a schedule that ``steps`` did not reach, if half as many steps as there are batches would.

    Only functions are evaluated, since an object may change with each call.
    """
    factors = _planned_factors(scheduler, batches // 2) if 0 < steps < batches / 2 else []
    if not factors:
        return None
    reached, planned = max(factors[: steps + 1]), max(factors)
    step = factors.index(planned)
    has_peak = step < len(factors) - 1 and planned > 0
    return UnreachedPeak(reached, planned, step) if has_peak and reached < planned / 2 else None


def highest_factor_if_rate(scheduler: Any, steps: int) -> float | None:
    """Return the highest factor of a LambdaLR in its first ``steps`` steps if the factors are learning rates.

    They are if the highest is the initial rate, up to a warm-up of half its height: the scheduler multiplies both.
    """
    initial = float((getattr(scheduler, "base_lrs", None) or [1.0])[0])
    highest = max(_planned_factors(scheduler, steps), default=1.0)
    is_rate = 0.5 * initial <= highest <= (1 + _RATE_TOLERANCE) * initial and initial < _MAX_INITIAL_RATE
    return highest if is_rate else None


def _planned_factors(scheduler: Any, steps: int) -> list[float]:
    """Return the factors of a LambdaLR up to a step; empty if they cannot be computed."""
    functions = [function for function in getattr(scheduler, "lr_lambdas", ()) if is_function(function)]
    if not functions or steps > _MAX_EVALUATED_STEPS // 2:
        return []
    try:
        return [float(functions[0](step)) for step in range(steps + 1)]
    except Exception:  # a function may be limited to the steps of its table
        return []
