"""The panel of slices: parts of the data that are worse than the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.slices import Slice, Slices
from nbdebug.slices.condition import Condition, asked
from nbdebug.tools.panel import Panel
from nbdebug.views.errors.panel_page import PanelView
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import rounded

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

DIGITS = 6  # so that a share is rounded once, by the page
AT_ONCE = 400_000  # numbers in columns up to which nobody waits for the search
EMBEDDED = 5_000  # rows up to which nobody waits for clusters
VALUES, LOOKED, COLUMNS = 50, 20_000, 200
LONGEST = 200  # characters of a slice's name


def fits(errors: Errors) -> bool:
    """Whether something says how bad a row is."""
    return len(errors.table) > 0 and (errors.table.right is not None or bool(errors.table.worst))


def state(errors: Errors, now: bool = False, own: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What the page draws; of a large table only once it is asked ``now``. ``own`` are the reader's own conditions.

    Raises SetupError for an own slice without rows.
    """
    columns = [column(name, values) for name, values in list(errors.table.columns.items())[:COLUMNS]]
    if not (now or own) and is_large(errors):
        return {"late": True, "columns": columns}
    found = found_state(errors.slices())
    return {**found, "columns": columns, "own": own_slice(errors, own) if own else None}


def is_large(errors: Errors) -> bool:
    """Whether the search takes so long that the page must not wait for it."""
    table = errors.table
    if ("slices",) in errors.known:
        return False
    return len(table) * len(table.columns) > AT_ONCE or (table.embedding is not None and len(table) > EMBEDDED)


def found_state(found: Slices) -> dict[str, Any]:
    """The slices that were found, and out of how many."""
    return {
        "late": False,
        "slices": [{**line(one), "q": rounded(one.q, DIGITS)} for one in found.slices],
        "tried": found.tried,
        "features": list(found.features[:VALUES]),
        "rows": found.rows,
        "measure": found.measure,
        "notes": list(found.notes),
        "said": f"The intervals allow for the choice among {found.tried} slices.",
    }


def line(one: Slice) -> dict[str, Any]:
    """One slice: its numbers rounded, its query in full."""
    names = ("value", "rest", "effect", "relative", "low", "high", "p")
    numbers = {name: rounded(float(getattr(one, name)), DIGITS) for name in names}
    return {"words": one.words[:LONGEST], "support": one.support, "query": asked(one.conditions), **numbers}


def own_slice(errors: Errors, own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A slice of the reader's own with its numbers."""
    from nbdebug.slices.judged import judged, measured

    conditions = [
        Condition(str(one["column"]), one.get("low"), one.get("high"), tuple(map(str, one.get("values") or ())))
        for one in own
    ]
    return line(measured(errors.table, judged(errors.table), conditions))


def column(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """A column to choose from: its range, or its values, the most frequent first."""
    if values.dtype.kind in "fiu":
        known = values[np.isfinite(values)]
        ends = (
            [rounded(float(known.min()), DIGITS), rounded(float(known.max()), DIGITS)] if len(known) else [None, None]
        )
        return {"name": name, "kind": "number", "values": [], "low": ends[0], "high": ends[1]}
    some = values[:: max(1, len(values) // LOOKED)].astype(str)
    texts, counts = np.unique(some, return_counts=True)
    first = texts[np.argsort(-counts, kind="stable")[:VALUES]]
    return {"name": name, "kind": "text", "values": first.tolist(), "low": None, "high": None}


def html(state: dict[str, Any]) -> str:
    """The same as a plain table."""
    if state["late"]:
        return paragraph("Slices: errors.slices() searches for them.")
    names = ("value", "rest", "low", "high")
    rows = [[one["words"], str(one["support"]), *(f"{one[name]:.4g}" for name in names)] for one in state["slices"]]
    head = ("slice", "samples", state["measure"], "the rest", "worse by", "to")
    said = f"Slices: tried {state['tried']}, kept {len(rows)}."
    return paragraph(said) + table(rows, head if rows else ()) + listed(state["notes"])


def page(found: Slices) -> PanelView:
    """The slices on a page of their own."""
    drawn = {**found_state(found), "columns": [], "own": None}
    return PanelView("slices", f"Weak slices: {found.headline}", drawn, html(drawn))


PANEL = Panel("slices", "Slices", fits, state, html)
