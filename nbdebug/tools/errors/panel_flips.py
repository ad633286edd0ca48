"""The panel of flips: what another model, or a later epoch, fixed and broke."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.predictions.classes import Predictions
from nbdebug.tools.errors.by_class import classes
from nbdebug.tools.errors.compare import CHANGES, gain_of, said
from nbdebug.tools.errors.flips import Moved, most_moved, moved
from nbdebug.tools.errors.numbers import one, triple
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import paragraph, table

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

MOST = 50  # classes on the page
SIDE = 15  # classes in the matrix
PAIRS = 30


def fits(errors: Errors) -> bool:
    """Whether the table was made by comparing two."""
    found = errors.table
    return isinstance(found, Predictions) and {"before", "change"} <= found.columns.keys()


def state(errors: Errors) -> dict[str, Any]:
    """What the page draws: the counts, the gain, the classes with the most flips, and who moved where."""
    predictions = classes(errors.table)
    gain, found = gain_of(predictions), moved(predictions)
    change = predictions.columns["change"]
    return {
        "said": said(gain),
        "counts": {name: int((change == name).sum()) for name in CHANGES},
        "rows": gain.rows,
        "gain": triple(gain.gain, gain.low, gain.high),
        "p": one(gain.p, 6),
        "classes": [by_class(predictions, found, at) for at in most_moved(found, MOST)],
        "total": len(predictions.classes),
        "matrix": matrix(found, most_moving(found, SIDE)),
        "pairs": moves(found),
    }


def by_class(predictions: Predictions, found: Moved, at: int) -> dict[str, Any]:
    """What changed among the rows of one class."""
    support = int((predictions.target == at).sum())
    counts = {"fixed": int(found.fixed[at]), "broken": int(found.broken[at])}
    return {"at": at, "name": predictions.classes[at], **counts, "support": support}


def most_moving(found: Moved, most: int) -> list[int]:
    """The classes that most rows left or came to, in the order of the classes."""
    beside = found.moves - np.diag(np.diag(found.moves))
    order = np.argsort(-(beside.sum(0) + beside.sum(1)), kind="stable")[:most]
    return sorted(int(one) for one in order if beside[one].any() or beside[:, one].any())


def matrix(found: Moved, at: Sequence[int]) -> dict[str, Any]:
    """Who went from which class to which, among some classes, and how many of those are wrong now."""
    inside = np.ix_(at, at)
    names = [found.names[i] for i in at]
    return {"at": at, "names": names, "moves": found.moves[inside].tolist(), "wrong": found.wrong[inside].tolist()}


def moves(found: Moved) -> list[dict[str, Any]]:
    """The moves with the most rows."""
    beside = found.moves - np.diag(np.diag(found.moves))
    rows, columns = np.nonzero(beside)
    order = np.argsort(-beside[rows, columns], kind="stable")[:PAIRS]
    cells = [(int(rows[i]), int(columns[i])) for i in order]
    return [
        {
            "at": [i, j],
            "names": [found.names[i], found.names[j]],
            "count": int(beside[i, j]),
            "wrong": int(found.wrong[i, j]),
        }
        for i, j in cells
    ]


def html(state: dict[str, Any]) -> str:
    """The same as plain tables."""
    body = [[row["name"], str(row["fixed"]), str(row["broken"]), str(row["support"])] for row in state["classes"][:12]]
    went = [[" → ".join(move["names"]), str(move["count"]), str(move["wrong"])] for move in state["pairs"][:12]]
    return (
        paragraph(state["said"])
        + table([[name, str(count)] for name, count in state["counts"].items()], ("change", "samples"))
        + table(body, ("class", "fixed", "broken", "samples"))
        + table(went, ("went from", "samples", "wrong now"))
    )


PANEL = Panel("flips", "Flips", fits, state, html)
