"""What the columns of a table are, told by their values: what a changed sample may hold and still be one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["constant", "choice", "steps", "real"]
OFTEN = 4  # values that are seen so often each, on average, are levels, and nothing between them is one
STEPS = 1_000  # a column on a finer grid than this is real
SWITCH = 1.67  # what another choice counts: the mean distance of two draws from a normal distribution, in MADs
NORMAL = 0.6745 * 1.2533  # a median deviation over a mean one, of a normal distribution
SAME = 1e-5  # of the range: rounding of normalized values


@dataclass(frozen=True, eq=False)
class Unit:
    """What changes at once: one column, or a group of which one is on.

    ``options`` (values × columns) are all that it may be; None for a real one, which may be anything from ``low`` to
    ``high``. ``spread`` is what a distance in it is counted in: its median absolute deviation.
    """

    name: str
    columns: tuple[int, ...]
    kind: Kind
    low: float
    high: float
    spread: float
    options: Floats | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """All units of a table in the order of their columns, with the rows that tell what they are."""

    units: tuple[Unit, ...]
    rows: Floats
    names: tuple[str, ...]

    def distance(self, points: Floats, other: Floats) -> Floats:
        """The distances of rows from another row: the sum over units, in median absolute deviations.

        Wachter, Mittelstadt & Russell 2018, arXiv:1711.00399, eq. 4.
        """
        found: Floats = self.apart(points, other).sum(1)
        return found

    def apart(self, points: Floats, other: Floats) -> Floats:
        """The distances of rows from another row in each unit, rows × units; another choice counts the same always."""
        spreads, edges, starts = self.scales
        found = np.abs(points - other)
        found = np.where(np.isnan(spreads), SWITCH * (found > edges), found / spreads)
        return np.asarray(np.maximum.reduceat(found, starts, axis=1))

    @cached_property
    def scales(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Of each column its spread, NaN for a choice, and what is rounding; and where the columns of a unit begin."""
        spreads, edges = np.ones(self.rows.shape[1]), np.zeros(self.rows.shape[1])
        for unit in self.units:
            at = list(unit.columns)
            spreads[at] = np.nan if unit.kind == "choice" else unit.spread
            edges[at] = SAME * (unit.high - unit.low)
        return spreads, edges, np.array([unit.columns[0] for unit in self.units])

    def changed(self, point: Floats, other: Floats) -> list[int]:
        """The units in which two rows differ."""
        return [int(at) for at in np.nonzero(self.apart(point[None], other)[0])[0]]


def columns_of(rows: Floats, names: Sequence[str], chosen: Sequence[int] = ()) -> Columns:
    """The units of a table (rows × columns); ``chosen`` are columns of which only seen values are known to mean any."""
    groups = one_hot(rows)
    grouped = {column for group in groups for column in group}
    units = [choice(rows, group, names) for group in groups]
    units += [column(rows, j, names[j], j in chosen) for j in range(rows.shape[1]) if j not in grouped]
    return Columns(tuple(sorted(units, key=lambda one: one.columns)), rows, tuple(names))


def column(rows: Floats, j: int, name: str, chosen: bool = False) -> Unit:
    """One column by itself."""
    values = rows[:, j]
    seen = np.unique(values)
    low, high = float(seen[0]), float(seen[-1])
    if len(seen) == 1:
        return Unit(name, (j,), "constant", low, high, 1.0, seen[:, None])
    if chosen or len(seen) == 2:
        return Unit(name, (j,), "choice", low, high, spread(values), seen[:, None])
    grid = levels(values, seen)
    kind: Kind = "real" if grid is None else "steps"
    return Unit(name, (j,), kind, low, high, spread(values), None if grid is None else grid[:, None])


def spread(values: Floats) -> float:
    """The median absolute deviation; from the mean one where more than half of the values are the same."""
    apart = np.abs(values - np.median(values))
    return float(np.median(apart)) or NORMAL * float(apart.mean()) or 1.0


def levels(values: Floats, seen: Floats) -> Floats | None:
    """The values that a column of steps may have: whole numbers, a grid, or few levels; None for a real column."""
    span = float(seen[-1] - seen[0])
    if (seen == np.rint(seen)).all():
        return np.arange(seen[0], seen[-1] + 1) if span <= STEPS else seen
    gaps = np.diff(seen)
    gaps = gaps[gaps > SAME * span]  # normalized numbers differ in their last digits
    count = round(span / float(gaps.min()))
    if count <= STEPS and len(values) >= 2 * len(seen):
        steps = gaps * (count / span)
        if np.abs(steps - np.rint(steps)).max() < 0.02 and count < 4 * len(seen):
            return np.linspace(seen[0], seen[-1], count + 1)
    return seen if len(values) >= OFTEN * len(seen) else None


def one_hot(rows: Floats) -> list[tuple[int, ...]]:
    """Groups of neighboring columns of two values each of which exactly one is on in every row."""
    low, high = rows.min(0), rows.max(0)
    on = rows > (low + high) / 2
    binary = ((rows == low) | (rows == high)).all(0) & ((low < high) | (low == 0))
    groups, start = [], 0
    while start < rows.shape[1]:
        end = group_from(on, binary, start)
        if end:
            groups.append(tuple(range(start, end)))
        start = end or start + 1
    return groups


def group_from(on: NDArray[np.bool_], binary: NDArray[np.bool_], start: int) -> int:
    """Where a group that begins here ends; 0 for none. A kind that was never seen belongs to it."""
    total = np.zeros(len(on), np.int64)
    for end in range(start, on.shape[1]):
        if not binary[end] or (end == start and not on[:, end].any()):
            return 0
        total += on[:, end]
        if (total > 1).any():
            return 0
        if end > start and (total == 1).all():
            return end + 1
    return 0


def choice(rows: Floats, group: tuple[int, ...], names: Sequence[str]) -> Unit:
    """The unit of a group; what it may be are the rows of it that were seen."""
    at = list(group)
    seen = np.unique(rows[:, at], axis=0)
    name = shared([names[j] for j in group])
    return Unit(name, group, "choice", float(rows[:, at].min()), float(rows[:, at].max()), 1.0, seen)


def shared(names: Sequence[str]) -> str:
    """What the names of a group begin with, else all of them."""
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    begin = first[:same].rstrip("_=:. -")
    return begin if len(begin) > 1 else "/".join(names)
