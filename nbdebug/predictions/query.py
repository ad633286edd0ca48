"""Which rows of a table are asked for, and in which order: what every click comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.extremes import highest, lowest
from nbdebug.predictions.texts import Texts

Rows = NDArray[np.int64]
Range = tuple[float | None, float | None]


@dataclass(frozen=True)
class Query:
    """Rows by cells of the grid, by ranges and values of columns, and by a set of rows; all of these together.

    ``cells`` are (row, column) of the grid, any of which will do. ``ranges`` map a column to its lowest and highest
    value, both included, None for no bound; ``values`` map a column to those that it may have, as text. ``right`` asks
    for right or for wrong rows only. ``rows`` restricts to some rows, such as those with a tag. ``sort`` is a column,
    or "" for the order of the table; rows whose value is NaN come last in either order.
    """

    cells: tuple[tuple[int, int], ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    right: bool | None = None
    rows: Sequence[int] | Rows | None = None
    sort: str | None = None
    descending: bool = True
    start: int = 0
    count: int = 24

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Query:
        """A query out of what a page asked; what it does not name is as by default."""
        known = {name: asked[name] for name in cls.__dataclass_fields__ if asked.get(name) is not None}
        if "cells" in known:
            known["cells"] = tuple((int(i), int(j)) for i, j in known["cells"])
        return cls(**known)

    @property
    def is_everything(self) -> bool:
        """Whether all rows are asked for."""
        free = not self.cells and not self.ranges and not self.values
        return free and self.right is None and self.rows is None

    @property
    def is_one_cell(self) -> bool:
        """Whether one cell is all that is asked for, in the usual order."""
        free = not self.ranges and not self.values and self.right is None and self.rows is None
        return free and len(self.cells) == 1 and self.sort is None and self.descending


@dataclass(frozen=True)
class Page:
    """Some of the rows that were asked for, in order, and how many there are in all."""

    rows: Rows
    total: int


def fitting(columns: Mapping[str, NDArray[Any]], query: Query, count: int, texts: Texts) -> NDArray[np.bool_]:
    """Which of ``count`` rows have the values and lie in the ranges that are asked for.

    ``texts`` are those of the columns. Raises SetupError for a column that there is not.
    """
    fits = np.ones(count, bool)
    for name, (low, high) in query.ranges.items():
        values = column(columns, name)
        if low is not None:
            fits &= values >= low
        if high is not None:
            fits &= values <= high
    for name, wanted in query.values.items():
        fits &= texts.among(name, column(columns, name), wanted)
    return fits


def column(columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """One column; raises SetupError where there is none of that name."""
    if name not in columns:
        raise SetupError(f"column is {name!r}; expected one of {', '.join(columns) or 'none'}. Take one of these.")
    return columns[name]


def in_order(values: NDArray[Any], rows: Rows | None, descending: bool, first: int) -> Rows:
    """The first of ``rows``, None for all, by their numbers, equal ones as they stand; what is NaN comes last."""
    found = values if rows is None else values[rows]
    order = highest(found, first) if descending else lowest(found, first)
    return np.asarray(order if rows is None else rows[order], np.int64)
