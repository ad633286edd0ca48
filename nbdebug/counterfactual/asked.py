"""The model as a search asks it: rows in, margins out, counted; and several searches that ask together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

import numpy as np

from nbdebug.counterfactual.columns import Floats
from nbdebug.counterfactual.given import Tabular
from nbdebug.counterfactual.goal import Goal

T = TypeVar("T")
MOST = 4  # times the budget, for what was begun within it
Search = Generator[Floats, Floats, T]


class Asked:
    """How far rows are beyond the goal; ``used`` of ``budget`` rows were asked."""

    def __init__(self, table: Tabular, goal: Goal, budget: int) -> None:
        self.table, self.goal, self.budget, self.used = table, goal, budget, 0

    def __call__(self, points: Floats) -> Floats:
        """The margins of rows; never reached where the model gives no number."""
        if not len(points):
            return np.zeros(0)
        self.used += len(points)
        found = self.goal.margins(self.table.outputs(points))
        return np.where(np.isnan(found), -np.inf, found)

    @property
    def spent(self) -> bool:
        """Whether no more is to be asked."""
        return self.used >= self.budget

    def together(self, searches: Sequence[Search[T]]) -> list[T | None]:
        """What each search returns; each yields rows and is sent their margins. None for those that take too long."""
        found: list[T | None] = [None] * len(searches)
        wanted: dict[int, Floats] = {}
        answers: dict[int, Floats | None] = dict.fromkeys(range(len(searches)))
        while answers:
            for at, margins in answers.items():
                try:
                    wanted[at] = next(searches[at]) if margins is None else searches[at].send(margins)
                except StopIteration as end:
                    found[at] = end.value
            if not wanted or self.used >= MOST * self.budget:
                break
            margins_of_all = self(np.concatenate(list(wanted.values())))
            ends = np.cumsum([len(one) for one in wanted.values()])[:-1]
            answers = dict(zip(wanted, np.split(margins_of_all, ends), strict=True))
            wanted = {}
        return found
