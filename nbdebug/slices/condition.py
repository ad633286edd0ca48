"""One condition on one column, which is a part of a query and can be said in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbdebug.predictions.query import Query

MISSING = ("nan", "None", "NaT", "<NA>")  # the texts by which a missing value is known
SHOWN = 3  # values that are named; of more the number


@dataclass(frozen=True)
class Condition:
    """A range of a column, both ends included and None for no bound, or values that it may have, as text.

    ``cells`` stand for a class of the target, which is no column: all cells in its row of the grid.
    """

    column: str
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    cells: tuple[tuple[int, int], ...] = ()

    @property
    def words(self) -> str:
        """Such as ``brightness ≤ 0.21`` or ``sex = male``."""
        if self.cells:
            return f"of class {self.values[0]}"
        if self.values:
            return f"{self.column} {said(self.values)}"
        if self.low is None:
            return f"{self.column} ≤ {number(self.high)}"
        if self.high is None:
            return f"{self.column} ≥ {number(self.low)}"
        if self.low == self.high:
            return f"{self.column} = {number(self.low)}"
        return f"{self.column} {number(self.low)} to {number(self.high)}"


def said(values: tuple[str, ...]) -> str:
    """Values of a column in words."""
    if set(values) <= set(MISSING):
        return "is missing"
    if len(values) > SHOWN:
        return f"is one of {len(values)} rare values"
    return "= " + " or ".join(values)


def number(value: float | None) -> str:
    """A bound in words: all digits of a short one."""
    text = f"{value:.12g}"
    return text if len(text) <= 8 else f"{value:.4g}"


def query_of(conditions: Iterable[Condition], **more: Any) -> Query:
    """The rows for which all conditions hold."""
    ranges, values, cells = {}, {}, tuple[tuple[int, int], ...]()
    for one in conditions:
        if one.cells:
            cells = one.cells
        elif one.values:
            values[one.column] = one.values
        else:
            ranges[one.column] = (one.low, one.high)
    return Query(cells=cells, ranges=ranges, values=values, **more)


def asked(conditions: Iterable[Condition]) -> dict[str, Any]:
    """The same as a page asks for it, without what is as by default."""
    found = query_of(conditions)
    parts = {"cells": found.cells, "ranges": found.ranges, "values": found.values}
    return {name: value for name, value in parts.items() if value}


def cut(below: Any, above: Any, kind: np.dtype[Any]) -> tuple[float, float]:
    """The shortest numbers that part two neighboring values: the highest of what is below, the lowest of what is not.

    They are compared as numbers of ``kind``, since the column will be.
    """
    if kind.kind != "f":
        return float(below), float(above)
    return shortest(below, above, below, kind, up=True), shortest(below, above, above, kind, up=False)


def shortest(below: Any, above: Any, own: Any, kind: np.dtype[Any], up: bool) -> float:
    """The shortest decimal from ``below`` to ``above`` that is on the side of ``own``."""
    if not (np.isfinite(below) and np.isfinite(above)):
        return float(np.nan_to_num(own))
    for digits in range(1, 18):
        for step in (0.0, 1.0, -1.0):
            tried = nudged(float(own), digits, step)
            as_kind = kind.type(tried)
            if (below <= as_kind < above) if up else (below < as_kind <= above):
                return tried
    return float(own)


def nudged(value: float, digits: int, step: float) -> float:
    """``value`` in so many digits, or the next such number."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - digits + 1)
    return float(f"{(np.rint(value / unit) + step) * unit:.{digits}g}")
