"""A query as SQL: the same rows in the same order as of a table in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from nbdebug.predictions.disk.duck import quoted
from nbdebug.predictions.query import Query, column

ROW, TARGET, PREDICTION = "nbdebug row", "nbdebug target", "nbdebug prediction"
Kinds = Mapping[str, np.ndarray]


def where(query: Query, kinds: Kinds) -> tuple[str, list[Any]]:
    """The condition of a query, with the values that stand in it. Raises SetupError for a column that there is not.

    ``kinds`` has an array of the right type for each column.
    """
    parts = [
        *(among_cells(query.cells) if query.cells else ()),
        *(one for name, bounds in query.ranges.items() for one in within(name, column(kinds, name), bounds)),
        *(has_text(name, column(kinds, name), wanted) for name, wanted in query.values.items()),
    ]
    target, prediction = quoted(TARGET), quoted(PREDICTION)
    if query.right is not None:
        parts.append((f"({target} = {prediction} AND {target} >= 0) = ?", [query.right]))
    if query.rows is not None:
        rows = np.asarray(query.rows, np.int64).tolist()
        parts.append((f"{quoted(ROW)} IN (SELECT unnest(?::BIGINT[]))", [rows]))
    said = " AND ".join(f"({condition})" for condition, _ in parts)
    return said or "true", [value for _, values in parts for value in values]


def among_cells(cells: Sequence[tuple[int, int]]) -> list[tuple[str, list[Any]]]:
    """Rows in any of some cells."""
    one = f"{quoted(TARGET)} = ? AND {quoted(PREDICTION)} = ?"
    return [(" OR ".join([f"({one})"] * len(cells)), [number for cell in cells for number in cell])]


def within(name: str, kind: np.ndarray, bounds: Sequence[float | None]) -> list[tuple[str, list[Any]]]:
    """Rows whose value lies between two bounds; NaN, the highest of all to DuckDB, does not."""
    value = f"{quoted(name)}::DOUBLE" if kind.dtype.kind == "b" else quoted(name)
    found = [
        (f"{value} {sign} ?", [bound]) for sign, bound in zip((">=", "<="), bounds, strict=True) if bound is not None
    ]
    if found and kind.dtype.kind == "f":
        found.append((f"NOT isnan({value})", []))
    return found


def has_text(name: str, kind: np.ndarray, wanted: Sequence[str]) -> tuple[str, list[Any]]:
    """Rows whose value is one of some texts; numbers are compared as numbers."""
    value = quoted(name)
    if kind.dtype.kind in "fiu":
        return f"coalesce({value} IN (SELECT unnest(?::DOUBLE[])), false)", [numbers(wanted)]
    if kind.dtype.kind == "b":
        value = f"CASE WHEN {value} THEN 'True' WHEN NOT {value} THEN 'False' END"
    return f"coalesce({value}::VARCHAR, 'None') IN (SELECT unnest(?::VARCHAR[]))", [list(map(str, wanted))]


def numbers(wanted: Sequence[str]) -> list[float]:
    """The texts that are numbers."""
    found = list[float]()
    for one in wanted:
        with suppress(ValueError):
            found.append(float(one))
    return found


def order(sort: str, kinds: Kinds, descending: bool) -> str:
    """The order of a query: by a column or as the rows stand; what is NaN or no value comes last."""
    if not sort:
        return quoted(ROW)
    kind, value = column(kinds, sort).dtype.kind, quoted(sort)
    if kind == "f":
        value = f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"
    return f"{value} {'DESC' if descending else 'ASC'} NULLS LAST, {quoted(ROW)}"
