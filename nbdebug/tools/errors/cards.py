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
    table, key = errors.table, errors.key(row)
    right = None if table.right is None else bool(table.right[row])
    return {
        **(top(errors, row) if full else {}),
        "row": int(row),
        "key": key,
        "said": plain(table.said(row)),
        "right": right,
        "values": {name: plain(values[row].item()) for name, values in table.columns.items()},
        **written(errors, row),
        "shown": errors.samples.shown(key, full) if errors.samples is not None else None,
    }


def top(errors: Errors, row: int) -> dict[str, Any]:
    """The likeliest classes of one row with their chances, where there are any."""
    found, chances, names = (getattr(errors.table, name, None) for name in ("top", "chances", "classes"))
    if found is None or chances is None or names is None or np.ndim(found) != 2:
        return {}
    pairs = zip(found[row].tolist(), chances[row].tolist(), strict=True)
    return {"top": [[names[one], plain(chance)] for one, chance in pairs if one >= 0]}


def written(errors: Errors, row: int) -> dict[str, Any]:
    """What the user wrote on one row."""
    key = errors.key(row)
    return {"tags": sorted(errors.marks.tags.get(key, ())), "note": errors.marks.notes.get(key, "")}


def cards(errors: Errors, query: Query) -> dict[str, Any]:
    """The cards of a query, and how many rows it has in all."""
    page = errors.table.page(query)
    return {"total": page.total, "start": query.start, "cards": [card(errors, int(row)) for row in page.rows]}
