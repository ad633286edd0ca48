"""The panel of classes: how well each is told, what it is taken for, and at which threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.metrics.intervals import wilson
from nbdebug.metrics.overall import accuracy, balanced_accuracy, f1, kappa, matthews
from nbdebug.metrics.pairs import confused_pairs
from nbdebug.metrics.per_class import PerClass, per_class
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.one_class import has_chances, place
from nbdebug.tools.errors.by_class import classes
from nbdebug.tools.errors.numbers import interval, percent, triple, triples
from nbdebug.tools.errors.panel_curves import of_class
from nbdebug.tools.errors.panels import Panel
from nbdebug.views.markup import paragraph, table

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

MOST = 50  # classes on the page
MOST_PLAIN = 12
AT_ONCE = 50_000  # rows whose curves are drawn without being asked for
NAMES = {
    "accuracy": accuracy,
    "balanced accuracy": balanced_accuracy,
    "macro F1": f1,
    "weighted F1": lambda matrix: f1(matrix, "weighted"),
    "Matthews correlation": matthews,
    "Cohen's kappa": kappa,
}


def state(errors: Errors, find: str = "", of: int | str | None = None) -> dict[str, Any]:
    """What the page draws: classes whose name holds ``find``, the worst first, and the curves of one of them."""
    predictions = classes(errors.table)
    found = per_class(predictions.matrix)
    at = worst(found, predictions.classes, str(find))
    asked = of is not None
    picked = place(predictions.classes, of) if of is not None else first_of(predictions, at)
    curved = has_chances(predictions) and picked is not None and (asked or len(predictions) <= AT_ONCE)
    return {
        "overall": overall(predictions),
        "classes": rows(predictions, found, at[:MOST]),
        "total": len(predictions.classes),
        "matching": len(at),
        "find": str(find),
        "pairs": pairs(predictions),
        "ends": ends(predictions),
        "chances": has_chances(predictions),
        "curves": of_class(predictions, picked, asked) if curved and picked is not None else None,
    }


def first_of(predictions: Predictions, at: Sequence[int]) -> int | None:
    """The class whose curves are drawn first: the second of two, else the worst."""
    return 1 if len(predictions.classes) == 2 else next(iter(at), None)


def worst(found: PerClass, names: Sequence[str], find: str) -> list[int]:
    """The classes whose name holds a text, the lowest F1 first; those that do not occur come last."""
    key = np.where(np.isnan(found.f1.value), np.inf, found.f1.value)
    order = np.lexsort((-found.support, key))
    return [int(i) for i in order if find.casefold() in names[i].casefold()]


def overall(predictions: Predictions) -> list[dict[str, Any]]:
    """What all classes together come to; accuracy with its interval."""
    matrix = predictions.matrix
    low, high = wilson(int(np.trace(matrix)), int(matrix.sum()))
    values = [{"name": name, "value": triple(of(matrix), np.nan, np.nan)} for name, of in NAMES.items()]
    values[0]["value"] = triple(accuracy(matrix), low, high)
    return values


def rows(predictions: Predictions, found: PerClass, at: Sequence[int]) -> list[dict[str, Any]]:
    """What is true of each of some classes, in the order given."""
    shares = {name: triples(getattr(found, name), at) for name in ("precision", "recall", "f1")}
    hits = np.diag(predictions.matrix)
    return [
        {
            "at": i,
            "name": predictions.classes[i],
            **{name: shares[name][place] for name in shares},
            "support": int(found.support[i]),
            "missed": int(found.support[i] - hits[i]),
            "taken": int(found.predicted[i] - hits[i]),
        }
        for place, i in enumerate(at)
    ]


def pairs(predictions: Predictions) -> list[dict[str, Any]]:
    """The most confused pairs."""
    names = predictions.classes
    return [
        {
            "cell": [pair.target, pair.prediction],
            "names": [names[pair.target], names[pair.prediction]],
            "count": pair.count,
            "back": pair.back,
            "share": triple(pair.share, pair.low, pair.high),
        }
        for pair in confused_pairs(predictions.matrix)
    ]


def ends(predictions: Predictions) -> list[dict[str, Any]]:
    """Both ends of the table as queries: the most wrong, the most sure and the least sure."""
    if not {"loss", "confidence"} <= predictions.columns.keys():
        return [{"label": "wrong", "query": {"right": False}}, {"label": "right", "query": {"right": True}}]
    return [
        {"label": "most wrong", "query": {"right": False, "sort": "loss"}},
        {"label": "wrong and most sure", "query": {"right": False, "sort": "confidence"}},
        {"label": "wrong and least sure", "query": {"right": False, "sort": "confidence", "descending": False}},
        {"label": "right and most sure", "query": {"right": True, "sort": "confidence"}},
        {"label": "right and least sure", "query": {"right": True, "sort": "confidence", "descending": False}},
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
        + table(body, ("class", "precision", "recall", "F1", "samples"))
        + paragraph(more if len(shown) < state["total"] else "")
        + table(taken[:MOST_PLAIN], ("confused", "samples", "of its class"))
    )


PANEL = Panel("classes", "Classes", lambda errors: isinstance(errors.table, Predictions), state, html)
