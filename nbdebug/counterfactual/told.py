"""From changed rows to answers: each change by its name, and how near the whole is to what there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbdebug.counterfactual.asked import Asked
from nbdebug.counterfactual.columns import SAME, SWITCH, Columns, Floats, Unit
from nbdebug.counterfactual.result import Change, Counterfactual, Counterfactuals
from nbdebug.neighbors.search import Floats as Singles
from nbdebug.neighbors.search import nearest

JUDGED = 500  # training samples whose own nearest ones tell what is usual


class Teller:
    """What a search found in words and numbers; ``seen`` are the outputs of the training samples."""

    def __init__(self, asked: Asked, seen: Floats, stay: set[int], features: int) -> None:
        self.asked, self.goal, self.table, self.seen = asked, asked.goal, asked.table, seen
        self.columns, self.stay, self.features = asked.table.columns, stay, features

    def told(self, points: Sequence[Floats], seconds: float) -> Counterfactuals:
        """All answers with what is to be said of them."""
        answers = self.answers(points)
        fixed = tuple(self.columns.units[at].name for at in sorted(self.stay))
        return Counterfactuals(
            answers, self.decision(self.goal.before), self.goal.said(), self.goal.before, self.goal.by, fixed,
            self.notes(answers), self.asked.used, len(self.columns.rows), seconds,
        )  # fmt: skip

    def answers(self, points: Sequence[Floats]) -> tuple[Counterfactual, ...]:
        """Each changed row, asked once more."""
        if not points:
            return ()
        rows, changed = scaled(self.columns, self.columns.rows), scaled(self.columns, np.array(points))
        same = np.nonzero((self.columns.rows == self.table.start).all(1))[0]  # the sample may be one of them
        apart, near = nearest(changed, rows, 1, "euclidean", np.full(len(points), same[0] if len(same) else -1))
        farther = np.searchsorted(usual(rows), apart[:, 0]) / min(len(rows), JUDGED)
        found = []
        for at, point in enumerate(points):
            outputs, place = self.table.outputs(point[None])[0], int(near[at, 0])
            whole, next_to = self.columns.distance(np.array([self.table.start, self.columns.rows[place]]), point)
            said, given = self.decision(outputs), self.table.batch(point[None]).inputs
            reach = place, float(next_to), float(farther[at])
            found.append(Counterfactual(self.changes(point), float(whole), said, given, outputs, *reach))
        return tuple(found)

    def decision(self, outputs: Floats) -> str:
        """What the model says, in words."""
        if self.goal.by is not None:
            return f"{outputs[0]:.4g}"
        return self.goal.name(int(self.goal.decided(outputs[None])[0]))

    def changes(self, point: Floats) -> tuple[Change, ...]:
        """The changes of a row, the largest first."""
        start = self.table.start
        apart = self.columns.apart(point[None], start)[0]
        order = [int(at) for at in np.argsort(-apart, kind="stable") if apart[at] > 0]
        return tuple(self.change(self.columns.units[at], point, start, float(apart[at])) for at in order)

    def change(self, unit: Unit, point: Floats, start: Floats, apart: float) -> Change:
        """One change."""
        if len(unit.columns) > 1:
            return Change(unit.name, self.on(unit, start), self.on(unit, point), apart)
        j = unit.columns[0]
        below = None if unit.kind == "choice" else float((self.columns.rows[:, j] <= point[j]).mean())
        seen = None if unit.kind == "choice" else (unit.low, unit.high)
        return Change(unit.name, float(start[j]), float(point[j]), apart, below, seen)

    def on(self, unit: Unit, point: Floats) -> str:
        """What of a group is on."""
        at = list(unit.columns)
        middle = (self.columns.rows[:, at].min(0) + self.columns.rows[:, at].max(0)) / 2
        names = [self.columns.names[j] for j, on in zip(at, point[at] > middle, strict=True) if on]
        return " and ".join(one.removeprefix(unit.name).lstrip("_=:. -") or one for one in names) or "none"

    def notes(self, answers: Sequence[Counterfactual]) -> tuple[str, ...]:
        """What was not found, and what is odd."""
        found = []
        if not answers:
            found.append(
                f"no change was found within {self.asked.used} rows that were asked; "
                "free a column, allow more features=, or a larger budget="
            )
            if not bool((self.goal.margins(self.seen) > 0).any()):
                found.append(f"the model decides so for none of {len(self.seen)} training samples")
        if answers and min(len(one.changes) for one in answers) > self.features:
            found.append(f"no change of up to {self.features} columns was enough")
        if outside := [unit.name for unit in self.columns.units if self.is_outside(unit)]:
            found.append(f"outside of what was seen in training: {', '.join(outside[:6])}")
        return tuple(found)

    def is_outside(self, unit: Unit) -> bool:
        """Whether the sample has a value beyond those of the training samples."""
        values = self.table.start[list(unit.columns)]
        edge = SAME * max(unit.high - unit.low, 1e-12)
        return bool((values < unit.low - edge).any() or (values > unit.high + edge).any())


def usual(rows: Singles) -> Singles:
    """The distances of training samples, of up to 500 of them, to their nearest other one, rising."""
    judged = np.random.default_rng(0).permutation(len(rows))[:JUDGED]
    return np.sort(nearest(rows[judged], rows, 1, "euclidean", judged)[0][:, 0])


def scaled(columns: Columns, points: Floats) -> Singles:
    """Rows in median deviations; two rows of other choices are as far apart as the choice counts."""
    found = []
    for unit in columns.units:
        values = points[:, list(unit.columns)]
        span = (unit.high - unit.low) or 1.0
        scale = span / SWITCH * (2**0.5 if len(unit.columns) > 1 else 1.0) if unit.kind == "choice" else unit.spread
        found.append(values / scale)
    return np.concatenate(found, 1).astype(np.float32)
