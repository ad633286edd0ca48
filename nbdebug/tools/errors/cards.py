"""Rows as cards: the sample, what was said of it, and what the user wrote on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.predictions.query import Query
from nbdebug.views.plain import plain

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors


def card(errors: Errors, row: int, full: bool = False) -> dict[str, Any]:
    """One row, ready for JSON."""
    return cards_of(errors, [row], full)[0]


def cards_of(errors: Errors, rows: Any, full: bool = False) -> list[dict[str, Any]]:
    """Some rows, ready for JSON; the table, which may be on disk, is asked for them once."""
    table = errors.table.take(rows)
    found = zip(rows, table.keys(range(len(table))) if table.index is not None else rows, strict=True)
    return [
        {
            "row": int(row),
            "key": int(key),
            "said": plain(table.said(at)),
            "right": None if table.right is None else bool(table.right[at]),
            "values": {name: plain(item(values[at])) for name, values in table.columns.items()},
            **written(errors, int(key)),
            "shown": errors.samples.shown(int(key), full) if errors.samples is not None else None,
        }
        for at, (row, key) in enumerate(found)
    ]


def item(value: Any) -> Any:
    """A value of a column as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def written(errors: Errors, key: int) -> dict[str, Any]:
    """What the user wrote on one sample."""
    return {"tags": sorted(errors.marks.tags.get(key, ())), "note": errors.marks.notes.get(key, "")}


def cards(errors: Errors, query: Query) -> dict[str, Any]:
    """The cards of a query, and how many rows it has in all."""
    page = errors.table.page(query)
    return {"total": page.total, "start": query.start, "cards": cards_of(errors, page.rows)}
