"""What a table found last: the pages of one query, and the orders of one filter, are looked for once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbdebug.predictions.query import Query, Rows

HELD = 1000  # rows that are put in order at once


class Recent:
    """The rows behind the last filter, and the first of those that were put in order last."""

    def __init__(self) -> None:
        self.filter: Any = None
        self.rows: Rows = np.empty(0, np.int64)
        self.order: Any = None
        self.head: Rows = self.rows

    def found(self, query: Query, find: Callable[[Query], Rows]) -> Rows:
        """All rows of a query, in the order of the table; those of the last one if only order or page differ."""
        wanted = filter_of(query)
        if self.filter != wanted:
            self.rows, self.filter = find(query), wanted
        return self.rows

    def first(self, order: Any, most: int, put: Callable[[int], Rows]) -> Rows:
        """At least so many rows in an order, which ``put`` gives if they are not those of the last one."""
        if self.order != order or len(self.head) < most:
            self.head, self.order = put(max(2 * most, HELD)), order
        return self.head


def filter_of(query: Query) -> Any:
    """What of a query says which rows are asked for, as something to compare."""
    ranges = tuple((name, tuple(bounds)) for name, bounds in query.ranges.items())
    values = tuple((name, tuple(wanted)) for name, wanted in query.values.items())
    rows = None if query.rows is None else np.asarray(query.rows, np.int64).tobytes()
    return query.cells, ranges, values, query.right, rows
