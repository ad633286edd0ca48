"""Rows of a table: names, values, and how odd each value is among those of the data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbdebug.samples.arrays import Array, as_array
from nbdebug.samples.hints import Hints
from nbdebug.views.plain import short

MOST = {False: 12, True: 500}  # rows
ODD = 3.5  # robust z-scores above it mark outliers: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993)
UNSEEN = 99.0  # how odd is what differs from a column that is otherwise one and the same


@dataclass(frozen=True)
class Rows:
    """Vectors of numbers and dictionaries of plain values; ``usual`` holds what is usual in each column."""

    names: Sequence[str] | None
    usual: Mapping[str, Usual]

    @classmethod
    def of(cls, values: Sequence[Any], hints: Hints) -> Rows | None:
        """Where all are single numbers, rows of numbers, or dictionaries of plain values."""
        rows = [cells(one, hints.columns) for one in values]
        if any(one is None for one in rows):
            return None
        columns: dict[str, list[float]] = {}
        for row in rows:
            for name, value in (row or {}).items():
                if is_number(value):
                    columns.setdefault(name, []).append(float(value))
        enough = {name: np.array(found) for name, found in columns.items() if len(found) >= 8}
        return cls(hints.columns, {name: Usual.of(found) for name, found in enough.items()})

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """One row; on a card the oddest first, where not all have room."""
        found = cells(value, self.names) or {}
        rows = [(name, written(one), self.oddness(name, one)) for name, one in found.items()]
        if len(rows) > MOST[full]:
            rows = sorted(rows, key=lambda row: -(row[2] or 0))[: MOST[full]]
        return {"kind": "table", "rows": [list(row) for row in rows], "more": len(found) - len(rows)}

    def oddness(self, name: str, value: Any) -> float | None:
        """How odd a value is, where it is."""
        if name not in self.usual or not is_number(value):
            return None
        found = self.usual[name].distance(float(value))
        return round(found, 1) if found > ODD else None


@dataclass(frozen=True)
class Usual:
    """What is usual in a column: its middle, its spread, and whether values are missing."""

    middle: float
    spread: float
    gaps: bool

    @classmethod
    def of(cls, values: Array) -> Usual:
        """Median and 1.4826 times the median deviation from it; 1.2533 times the mean one where half have none.

        A column of two values has no odd ones.
        """
        seen = values[np.isfinite(values)]
        if not len(seen):
            return cls(0.0, np.inf, True)
        middle = float(np.median(seen))
        apart = np.abs(seen - middle)
        spread = 1.4826 * float(np.median(apart)) or 1.2533 * float(apart.mean())
        return cls(middle, np.inf if len(np.unique(seen)) == 2 else spread, len(seen) < len(values))

    def distance(self, value: float) -> float:
        """The robust z-score of a value, without its sign."""
        if not np.isfinite(value):
            return 0.0 if self.gaps else UNSEEN
        if self.spread == 0:
            return 0.0 if value == self.middle else UNSEEN
        return min(abs(value - self.middle) / self.spread, UNSEEN)


def cells(value: Any, names: Sequence[str] | None) -> dict[str, Any] | None:
    """The values of a row by their names; None for what is no row. Of a very long one, those that are not zero."""
    if hasattr(value, "items") and not hasattr(value, "detach"):
        found = {str(key): plainly(one) for key, one in value.items()}
        return found if all(is_plain(one) for one in found.values()) else None
    if getattr(getattr(value, "dtype", None), "names", None):
        return {name: value[name].item() for name in value.dtype.names}
    array = as_array(value if not is_plain(value) or isinstance(value, (str, bytes)) else [value])
    if array is None or array.ndim > 2 or (array.ndim == 2 and 1 not in array.shape):
        return None
    flat = array.reshape(-1)
    known = list(names) if names is not None and len(names) == flat.size else None
    places = np.flatnonzero(flat) if flat.size > MOST[True] and flat.any() else np.arange(flat.size)
    return {known[at] if known else f"feature {at}" if flat.size > 1 else "value": flat[at].item() for at in places}


def plainly(value: Any) -> Any:
    """A single number of torch or numpy as one of Python."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def is_plain(value: Any) -> bool:
    """Whether this is a single value: a number, a text, a truth value, a date, nothing."""
    return (
        value is None or isinstance(value, (bool, int, float, complex, str, np.generic)) or hasattr(value, "isoformat")
    )


def is_number(value: Any) -> bool:
    """Whether a value is a number that can be odd."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def written(value: Any) -> str:
    """A value in a cell."""
    if isinstance(value, float) and np.isnan(value):
        return "missing"
    return short(value)[:200]
