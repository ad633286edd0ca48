"""Reduce a change that reaches the goal to a minimal one, within a budget of model queries."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.counterfactuals.feature_space import FeatureSpace, FeatureUnit, Floats, TabularProblem
from nbdebug.counterfactuals.goal import CounterfactualGoal

T = TypeVar("T")
_OVERDRAFT_FACTOR = 4  # searches that started within the budget may use this many times the budget
MarginSearch = Generator[Floats, Floats, T]
_COST_PER_UNIT = 1.0  # cost of one more changed column, in median absolute deviations, so that few change
_STEPS_PER_QUERY = 32  # steps of a unit evaluated together
_REAL_VALUES_PER_QUERY = 8  # intermediate values of a real-valued unit evaluated together: few rows, and few calls
_REAL_RESOLUTION = 2**20  # resolution of a real-valued unit, as parts of its change
MIN_RELATIVE_GAIN = 1e-4  # relative reduction of the distance below which minimization stops


class QueryBudget:
    """Evaluates how far rows are beyond the goal; ``used`` of ``budget`` rows have been evaluated."""

    def __init__(self, table: TabularProblem, goal: CounterfactualGoal, budget: int) -> None:
        self.table, self.goal, self.budget, self.used = table, goal, budget, 0

    def __call__(self, points: Floats) -> Floats:
        """Return the margins of rows; -inf for outputs that are NaN."""
        if not len(points):
            return np.zeros(0)
        self.used += len(points)
        margins = self.goal.margins(self.table.outputs(points))
        return np.where(np.isnan(margins), -np.inf, margins)

    @property
    def is_spent(self) -> bool:
        """Check for an exhausted budget."""
        return self.used >= self.budget

    def run_searches(self, searches: Sequence[MarginSearch[T]]) -> list[T | None]:
        """Run searches together: each yields rows and gets their margins. None for searches that take too long."""
        results: list[T | None] = [None] * len(searches)
        requests: dict[int, Floats] = {}
        replies: dict[int, Floats | None] = dict.fromkeys(range(len(searches)))
        while replies:
            for i, margins in replies.items():
                try:
                    requests[i] = next(searches[i]) if margins is None else searches[i].send(margins)
                except StopIteration as end:
                    results[i] = end.value
            if not requests or self.used >= _OVERDRAFT_FACTOR * self.budget:
                break
            margins_of_all = self(np.concatenate(list(requests.values())))
            boundaries = np.cumsum([len(rows) for rows in requests.values()])[:-1]
            replies = dict(zip(requests, np.split(margins_of_all, boundaries), strict=True))
            requests = {}
        return results


def change_cost(space: FeatureSpace, points: Floats, original: Floats) -> Floats:
    """Return distance plus a cost per changed unit."""
    distances = space.unit_distances(points, original)
    costs: Floats = distances.sum(1) + _COST_PER_UNIT * (distances > 0).sum(1)
    return costs


def minimize_change(space: FeatureSpace, point: Floats, original: Floats) -> MarginSearch[Floats]:
    """Revert every change that is not needed, and make each other change as small as possible."""
    while True:
        point = yield from _revert_units(space, point, original)
        smaller = yield from _shrink_unit(space, point, original)
        if smaller is None:
            return point
        point = smaller


def _revert_units(space: FeatureSpace, point: Floats, original: Floats) -> MarginSearch[Floats]:
    """Revert changes, the largest first, as long as the goal stays reached."""
    while changed := [space.units[i] for i in space.changed_units(point, original)]:
        rows = np.repeat(point[None], len(changed), 0)
        for row, unit in zip(rows, changed, strict=True):
            row[list(unit.columns)] = original[list(unit.columns)]
        reaches_goal = (yield rows) > 0
        if not reaches_goal.any():
            break
        costs = np.where(reaches_goal, change_cost(space, rows, original), np.inf)
        point = rows[int(costs.argmin())]
    return point


def _shrink_unit(space: FeatureSpace, point: Floats, original: Floats) -> MarginSearch[Floats | None]:
    """Shrink the change that saves the most; None if no change can be smaller."""
    units = [space.units[i] for i in space.changed_units(point, original) if space.units[i].kind in ("steps", "real")]
    ladders = [_BisectionLadder(unit, point, original) for unit in units]
    while unfinished := [ladder for ladder in ladders if ladder.high - ladder.low > 1]:
        rungs = [ladder.rungs_to_try() for ladder in unfinished]
        margins = yield np.concatenate([ladder.rows(rung) for ladder, rung in zip(unfinished, rungs, strict=True)])
        boundaries = np.cumsum([len(rung) for rung in rungs])[:-1]
        for ladder, rung, rung_margins in zip(unfinished, rungs, np.split(margins, boundaries), strict=True):
            ladder.narrow(rung, rung_margins)
    if not ladders:
        return None
    rows = np.array([ladder.rows(np.array([ladder.high]))[0] for ladder in ladders])
    saved = space.distance(point[None], original)[0] - space.distance(rows, original)
    best = int(saved.argmax())
    return rows[best] if saved[best] > MIN_RELATIVE_GAIN * space.distance(point[None], original)[0] else None


class _BisectionLadder:
    """Values of one unit from that of the sample (rung -1) to the changed one.

    The goal is reached at rung ``high``.
    """

    def __init__(self, unit: FeatureUnit, point: Floats, original: Floats) -> None:
        self.column, self.point = unit.columns[0], point
        changed_value, start_value = float(point[self.column]), float(original[self.column])
        if unit.options is None:
            self.start_value, self.changed_value, self.values = (
                min(max(start_value, unit.low), unit.high),
                changed_value,
                None,
            )
            self.high = _REAL_RESOLUTION
        else:
            self.values = _options_between(unit.options[:, 0], start_value, changed_value)
            self.high = len(self.values) - 1
        self.low = -1

    def rungs_to_try(self) -> NDArray[np.int64]:
        """Return evenly spaced rungs to try."""
        rung_count = min(_REAL_VALUES_PER_QUERY if self.values is None else _STEPS_PER_QUERY, self.high - self.low - 1)
        return np.unique(np.linspace(self.low, self.high, rung_count + 2).round().astype(np.int64)[1:-1])

    def rows(self, rungs: NDArray[np.int64]) -> Floats:
        """Return the point at these rungs."""
        result = np.repeat(self.point[None], len(rungs), 0)
        if self.values is not None:
            result[:, self.column] = self.values[rungs]
        else:
            result[:, self.column] = np.where(
                rungs == _REAL_RESOLUTION,
                self.changed_value,
                self.start_value + (self.changed_value - self.start_value) * rungs / _REAL_RESOLUTION,
            )
        return result

    def narrow(self, rungs: NDArray[np.int64], margins: Floats) -> None:
        """Keep the first rung that reaches the goal and the last one before it."""
        reached = np.nonzero(margins > 0)[0]
        if len(reached):
            self.high = int(rungs[reached[0]])
            self.low = int(rungs[reached[0] - 1]) if reached[0] else self.low
        else:
            self.low = int(rungs[-1])


def _options_between(options: Floats, start_value: float, changed_value: float) -> Floats:
    """Return the options from one value to another, without the first, with the last."""
    low, high = min(start_value, changed_value), max(start_value, changed_value)
    between = options[(options > low) & (options < high)]
    return np.append(between if start_value < changed_value else between[::-1], changed_value)
