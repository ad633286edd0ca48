"""From a change that is enough to one of which nothing can be left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nbdebug.counterfactual.asked import Search
from nbdebug.counterfactual.columns import Columns, Floats, Unit

EACH = 1.0  # what one more changed column counts, in MADs, so that few are changed
AT_ONCE = 32  # steps of a unit that are asked at once
PARTS = 8  # of the way of a real number that are asked at once: few rows, and few calls
FINE = 2**20  # parts of the way that a real number is found to
LEAST = 1e-4  # of a distance: less is not worth another round


def cost(columns: Columns, points: Floats, start: Floats) -> Floats:
    """Distance and number of changed units of rows."""
    apart = columns.apart(points, start)
    found: Floats = apart.sum(1) + EACH * (apart > 0).sum(1)
    return found


def polished(columns: Columns, point: Floats, start: Floats) -> Search[Floats]:
    """The point with every change undone that can be, and every other one as small as it can be by itself."""
    while True:
        point = yield from undone(columns, point, start)
        smaller = yield from shrunk(columns, point, start)
        if smaller is None:
            return point
        point = smaller


def undone(columns: Columns, point: Floats, start: Floats) -> Search[Floats]:
    """The point with changes undone, the largest first, as long as the goal stays reached."""
    while changed := [columns.units[at] for at in columns.changed(point, start)]:
        rows = np.repeat(point[None], len(changed), 0)
        for row, unit in zip(rows, changed, strict=True):
            row[list(unit.columns)] = start[list(unit.columns)]
        good = (yield rows) > 0
        if not good.any():
            break
        costs = np.where(good, cost(columns, rows, start), np.inf)
        point = rows[int(costs.argmin())]
    return point


def shrunk(columns: Columns, point: Floats, start: Floats) -> Search[Floats | None]:
    """The point with that one change made smaller that saves the most; None where none can be."""
    units = [columns.units[at] for at in columns.changed(point, start) if columns.units[at].kind in ("steps", "real")]
    ladders = [Ladder(unit, point, start) for unit in units]
    while open_ := [one for one in ladders if one.high - one.low > 1]:
        rungs = [one.between() for one in open_]
        margins = yield np.concatenate([one.rows(rung) for one, rung in zip(open_, rungs, strict=True)])
        ends = np.cumsum([len(rung) for rung in rungs])[:-1]
        for one, rung, found in zip(open_, rungs, np.split(margins, ends), strict=True):
            one.narrow(rung, found)
    if not ladders:
        return None
    rows = np.array([one.rows(np.array([one.high]))[0] for one in ladders])
    saved = columns.distance(point[None], start)[0] - columns.distance(rows, start)
    best = int(saved.argmax())
    return rows[best] if saved[best] > LEAST * columns.distance(point[None], start)[0] else None


class Ladder:
    """The values of one unit from that of the sample, rung -1, up to a changed one; the goal is reached at ``high``."""

    def __init__(self, unit: Unit, point: Floats, start: Floats) -> None:
        self.column, self.point = unit.columns[0], point
        there, here = float(point[self.column]), float(start[self.column])
        if unit.options is None:
            self.base, self.there, self.values = min(max(here, unit.low), unit.high), there, None
            self.high = FINE
        else:
            self.values = way(unit.options[:, 0], here, there)
            self.high = len(self.values) - 1
        self.low = -1

    def between(self) -> NDArray[np.int64]:
        """Some rungs to be tried, evenly."""
        inside = min(PARTS if self.values is None else AT_ONCE, self.high - self.low - 1)
        return np.unique(np.linspace(self.low, self.high, inside + 2).round().astype(np.int64)[1:-1])

    def rows(self, rungs: NDArray[np.int64]) -> Floats:
        """The point at these rungs."""
        found = np.repeat(self.point[None], len(rungs), 0)
        if self.values is not None:
            found[:, self.column] = self.values[rungs]
        else:
            found[:, self.column] = np.where(
                rungs == FINE, self.there, self.base + (self.there - self.base) * rungs / FINE
            )
        return found

    def narrow(self, rungs: NDArray[np.int64], margins: Floats) -> None:
        """Keeps the first rung at which the goal is reached, and the last one before it."""
        good = np.nonzero(margins > 0)[0]
        if len(good):
            self.high = int(rungs[good[0]])
            self.low = int(rungs[good[0] - 1]) if good[0] else self.low
        else:
            self.low = int(rungs[-1])


def way(options: Floats, here: float, there: float) -> Floats:
    """The options on the way from one value to another, without the first, with the last."""
    low, high = min(here, there), max(here, there)
    found = options[(options > low) & (options < high)]
    return np.append(found if here < there else found[::-1], there)
