"""Changes that reach the goal: by values that were seen, few columns at a time, and by samples that are there already.

Both need nothing but outputs of the model, so that any will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nbdebug.counterfactual.asked import Asked, Search
from nbdebug.counterfactual.columns import Columns, Floats
from nbdebug.counterfactual.polish import cost, polished

QUANTILES = (0.0, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
OPTIONS = 32  # of a choice that are tried
BEAM = 8  # changed samples that are changed further
FURTHER, NARROW = 8, 2  # units beyond what was asked for, where that is not enough, and how many samples then
UNITS = 32  # that are changed further: those that did the most by themselves
POLISHED = 16  # reaching changes of different columns that are made smaller, of one column and of several
UNLIKE = 6  # training samples that the goal is reached at


def candidates(asked: Asked, free: Sequence[int], most: int) -> list[Floats]:
    """Changes of the free units that reach the goal, polished; by training samples where ``most`` are not enough."""
    columns, start = asked.table.columns, asked.table.start
    found = asked.together([polished(columns, point, start) for point in beam(asked, free, most)])
    if not any(one is not None and len(columns.changed(one, start)) <= most for one in found):
        found += asked.together([from_sample(columns, row, start, free) for row in unlike(asked, free)])
    return [one for one in found if one is not None]


def beam(asked: Asked, free: Sequence[int], most: int) -> list[Floats]:
    """Changes that reach the goal, the cheapest of different units, ending one unit after the first was found."""
    columns, start = asked.table.columns, asked.table.start
    options = {at: options_of(columns, at, start) for at in free}
    states, reached, last = start[None], np.zeros((0, len(start))), most + FURTHER
    for depth in range(last):
        points = np.concatenate([np.zeros((0, len(start))), *moves(columns, states, options, start)])
        if depth >= last or asked.spent or not len(points):
            break
        margins = asked(points)
        costs = cost(columns, points, start)
        good = margins > 0
        reached = np.concatenate([reached, points[good]])
        if good.any():
            last = min(last, depth + 2, max(most, depth + 1))
        if depth == 0:
            options = strongest(options, columns, points, margins, start)
        gains = margins - asked.goal.margins(asked.goal.before[None])[0]
        width = BEAM if depth + 1 < most else NARROW
        states = points[front(columns, points, gains, costs, ~good, start, width)]
    alone = (columns.apart(reached, start) > 0).sum(1) == 1
    return [one for among in (alone, ~alone) for one in cheapest(columns, reached[among], start, POLISHED)]


def options_of(columns: Columns, unit: int, start: Floats) -> Floats:
    """The values of a unit that are tried (values × columns), without its present one."""
    one = columns.units[unit]
    at = list(one.columns)
    if one.options is None:
        found = np.quantile(columns.rows[:, at], QUANTILES, axis=0)
    else:
        few = OPTIONS if one.kind == "choice" else len(QUANTILES)
        found = one.options[np.unique(np.linspace(0, len(one.options) - 1, few).round().astype(int))]
    points = np.repeat(start[None], len(found), 0)
    points[:, at] = found
    return np.asarray(found[columns.apart(points, start)[:, unit] > 0])


def moves(columns: Columns, states: Floats, options: dict[int, Floats], start: Floats) -> list[Floats]:
    """Every state with one more unit changed."""
    found = []
    for state in states:
        before = set(columns.changed(state, start))
        for at, values in options.items():
            if at not in before:
                points = np.repeat(state[None], len(values), 0)
                points[:, list(columns.units[at].columns)] = values
                found.append(points)
    return found


def strongest(
    options: dict[int, Floats], columns: Columns, points: Floats, margins: Floats, start: Floats
) -> dict[int, Floats]:
    """The options of those units that did the most for the goal by themselves."""
    if len(options) <= UNITS:
        return options
    moved = columns.apart(points, start) > 0
    best = {at: margins[moved[:, at]].max(initial=-np.inf) for at in options}
    return {at: options[at] for at in sorted(best, key=lambda at: -best[at])[:UNITS]}


def front(
    columns: Columns, points: Floats, gains: Floats, costs: Floats, among: NDArray[np.bool_], start: Floats, width: int
) -> list[int]:
    """The rows to go on from: those nearest to the goal, and those that came near it at the least cost."""
    rows = np.nonzero(among & np.isfinite(gains))[0]
    sets = [one.tobytes() for one in columns.apart(points[rows], start) > 0]
    chosen: set[int] = set()
    for score in (gains[rows], gains[rows] / costs[rows]):
        chosen.update(int(rows[at]) for at in first_of_each(np.argsort(-score, kind="stable"), sets, width // 2))
    return sorted(chosen)


def first_of_each(order: Iterable[int], sets: Sequence[bytes], count: int) -> list[int]:
    """The first of each set, up to so many."""
    seen: dict[bytes, int] = {}
    for at in order:
        seen.setdefault(sets[at], int(at))
        if len(seen) >= count:
            break
    return list(seen.values())


def cheapest(columns: Columns, points: Floats, start: Floats, count: int) -> list[Floats]:
    """The cheapest point of each set of units, and of these the cheapest."""
    sets = [one.tobytes() for one in columns.apart(points, start) > 0]
    order = np.argsort(cost(columns, points, start), kind="stable")
    return [points[at] for at in first_of_each(order, sets, count)]


def unlike(asked: Asked, free: Sequence[int]) -> Floats:
    """The nearest training samples at which the goal is reached, with what must not change as in the sample."""
    columns, start = asked.table.columns, asked.table.start
    rows = np.repeat(start[None], len(columns.rows), 0)
    at = [j for unit in free for j in columns.units[unit].columns]
    rows[:, at] = columns.rows[:, at]
    rows = rows[asked(rows) > 0]
    return rows[np.argsort(columns.distance(rows, start), kind="stable")[:UNLIKE]]


def from_sample(columns: Columns, other: Floats, start: Floats, free: Sequence[int]) -> Search[Floats]:
    """As few values of another sample as are enough, those first that do the most for what they cost; polished."""
    units = [columns.units[at] for at in columns.changed(other, start) if at in set(free)]
    single = np.repeat(start[None], len(units), 0)
    for row, unit in zip(single, units, strict=True):
        row[list(unit.columns)] = other[list(unit.columns)]
    margins = yield single
    order = np.argsort(-(margins - margins.min()) / cost(columns, single, start), kind="stable")
    prefixes = np.repeat(start[None], len(units), 0)
    for place, at in enumerate(order):
        prefixes[place:, list(units[at].columns)] = other[list(units[at].columns)]
    good = (yield prefixes) > 0
    point = prefixes[int(good.argmax())] if good.any() else other
    return (yield from polished(columns, point, start))
