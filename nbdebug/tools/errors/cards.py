"""Rows as cards: the sample, what was said of it, and what the user wrote on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.predictions.query import Query
from nbdebug.tools.errors.dressed import dressed
from nbdebug.views.plain import plain

if TYPE_CHECKING:
    from nbdebug.predictions.table import Table
    from nbdebug.tools.errors.result import Errors


def card(errors: Errors, row: int, full: bool = False) -> dict[str, Any]:
    """One row, ready for JSON."""
    return cards_of(errors, [row], full)[0]


def cards_of(errors: Errors, rows: Any, full: bool = False) -> list[dict[str, Any]]:
    """Some rows, ready for JSON; the table, which may be on disk, and the data set are asked for them once."""
    table = errors.table.take(rows)
    keys = [int(key) for key in (table.keys(range(len(table))) if table.index is not None else rows)]
    shown: list[Any] = errors.samples.many(keys, full) if errors.samples is not None else [None] * len(keys)
    return [
        {
            **(top(table, at) if full else {}),
            "row": int(row),
            "key": key,
            "said": plain(table.said(at)),
            "right": None if table.right is None else bool(table.right[at]),
            "values": {name: plain(item(values[at])) for name, values in table.columns.items()},
            **written(errors, key),
            "shown": dressed(table, at, shown[at], full),
        }
        for at, (row, key) in enumerate(zip(rows, keys, strict=True))
    ]


def item(value: Any) -> Any:
    """A value of a column as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def top(table: Table, row: int) -> dict[str, Any]:
    """The likeliest classes of one row with their chances, where there are any."""
    found, chances, names = (getattr(table, name, None) for name in ("top", "chances", "classes"))
    if found is None or chances is None or names is None or np.ndim(found) != 2:
        return {}
    pairs = zip(found[row].tolist(), chances[row].tolist(), strict=True)
    return {"top": [[names[one], plain(chance)] for one, chance in pairs if one >= 0]}


def written(errors: Errors, key: int) -> dict[str, Any]:
    """What the user wrote on one sample."""
    return {"tags": sorted(errors.marks.tags.get(key, ())), "note": errors.marks.notes.get(key, "")}


def cards(errors: Errors, query: Query) -> dict[str, Any]:
    """The cards of a query, and how many rows it has in all."""
    page = errors.table.page(query)
    return {"total": page.total, "start": query.start, "cards": cards_of(errors, page.rows)}
