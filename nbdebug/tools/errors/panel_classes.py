"""The panel of classes: how well each is told, what it is taken for, and at which threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.metrics.pairs import confused_pairs
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.multilabel import MultiLabel
from nbdebug.predictions.one_class import has_chances, place
from nbdebug.predictions.table import Table
from nbdebug.tools.errors.numbers import interval, percent, triple, triples
from nbdebug.tools.errors.panel_curves import of_class
from nbdebug.tools.errors.told import Told, told
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import paragraph
from nbdebug.views.markup import table as html_table

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

MOST = 50  # classes on the page
MOST_PLAIN = 12
AT_ONCE = 50_000  # rows whose curves are drawn without being asked for


def state(errors: Errors, find: str = "", of: int | str | None = None) -> dict[str, Any]:
    """What the page draws: classes whose name holds ``find``, the worst first, and the curves of one of them."""
    found = told(errors.table)
    assert found is not None
    at = worst(found, str(find))
    return {
        "overall": [{"name": name, "value": triple(*value)} for name, value in found.overall.items()],
        "classes": rows(found, at[:MOST]),
        "total": len(found.names),
        "matching": len(at),
        "find": str(find),
        "apart": found.apart,
        "pairs": pairs(errors.table),
        "ends": ends(errors.table),
        "chances": has_chances(errors.table),
        "curves": curves_state(errors, found, at, of),
    }


def curves_state(errors: Errors, found: Told, at: Sequence[int], of: int | str | None) -> dict[str, Any] | None:
    """The curves of a class, else of the second of two or the worst; None without chances, and of many rows unasked."""
    first = 1 if len(found.names) == 2 and not found.apart else next(iter(at), None)
    picked = first if of is None else place(found.names, of)
    if picked is None or not has_chances(errors.table) or (of is None and len(errors.table) > AT_ONCE):
        return None
    return of_class(errors.table, picked, of is not None)


def worst(found: Told, find: str) -> list[int]:
    """The classes whose name holds a text, the lowest F1 first; those that do not occur come last."""
    key = np.where(np.isnan(found.shares.f1.value), np.inf, found.shares.f1.value)
    order = np.lexsort((-found.shares.support, key))
    return [int(i) for i in order if find.casefold() in found.names[i].casefold()]


def rows(found: Told, at: Sequence[int]) -> list[dict[str, Any]]:
    """What is true of each of some classes, in the order given."""
    shares = {name: triples(getattr(found.shares, name), at) for name in ("precision", "recall", "f1")}
    return [
        {
            "at": i,
            "name": found.names[i],
            **{name: shares[name][place] for name in shares},
            "support": int(found.shares.support[i]),
            "missed": int(found.shares.support[i] - found.hits[i]),
            "taken": int(found.shares.predicted[i] - found.hits[i]),
        }
        for place, i in enumerate(at)
    ]


def pairs(table: Table) -> list[dict[str, Any]]:
    """The most confused pairs, of classes."""
    if not isinstance(table, Predictions):
        return []
    names = table.classes
    return [
        {
            "cell": [pair.target, pair.prediction],
            "names": [names[pair.target], names[pair.prediction]],
            "count": pair.count,
            "back": pair.back,
            "share": triple(pair.share, pair.low, pair.high),
        }
        for pair in confused_pairs(table.matrix)
    ]


def ends(table: Table) -> list[dict[str, Any]]:
    """Both ends of the table as queries: the most wrong, the most sure and the least sure."""
    sure = "confidence" if "confidence" in table.columns else "margin"
    first = (
        [{"label": "most wrong", "query": {"right": False, "sort": table.worst, "descending": True}}]
        if table.worst
        else []
    )
    if sure not in table.columns:
        return first or [{"label": name, "query": {"right": name == "right"}} for name in ("wrong", "right")]
    return first + [
        {
            "label": f"{'right' if right else 'wrong'} and {'most' if most else 'least'} sure",
            "query": {"right": right, "sort": sure, "descending": most},
        }
        for right in (False, True)
        for most in (True, False)
    ]


def html(state: dict[str, Any]) -> str:
    """The same as plain tables: the worst classes and pairs."""
    words = ", ".join(f"{value['name']} {interval(value['value'])}" for value in state["overall"])
    shown = state["classes"][:MOST_PLAIN]
    body = [
        [row["name"], *(interval(row[name]) for name in ("precision", "recall", "f1")), str(row["support"])]
        for row in shown
    ]
    more = f"… and {state['total'] - len(shown)} more classes: errors.per_class()"
    taken = [
        [" taken for ".join(pair["names"]), str(pair["count"]), percent(pair["share"][0])] for pair in state["pairs"]
    ]
    return (
        paragraph(words)
        + html_table(body, ("class", "precision", "recall", "F1", "samples"))
        + paragraph(more if len(shown) < state["total"] else "")
        + html_table(taken[:MOST_PLAIN], ("confused", "samples", "of its class"))
    )


def fits(errors: Errors) -> bool:
    """Whether rows have a class, or labels."""
    return isinstance(errors.table, (Predictions, MultiLabel))


PANEL = Panel("classes", "Classes", fits, state, html)
