"""The panel of flips: what another model, or a later epoch, fixed and broke."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.formatting import html_paragraph, html_table, round_decimals, value_with_interval
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.tools.errors.comparison import (
    CHANGES,
    ChangeCounts,
    accuracy_gain,
    count_changes,
    gain_text,
    most_changed_classes,
)
from nbdebug.tools.errors.data import check_classification
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

_MAX_CLASSES_ON_PAGE = 50  # classes on the page
_MAX_MATRIX_CLASSES = 15  # classes in the matrix
_MAX_PAIRS = 30


def _fits(errors: ErrorData) -> bool:
    """Check whether the table compares two results."""
    table = errors.table
    return isinstance(table, ClassificationTable) and {"before", "change"} <= table.columns.keys()


def state(errors: ErrorData) -> dict[str, Any]:
    """Return the counts, the gain, the classes with the most changes, and the changes by pair."""
    predictions = check_classification(errors.table)
    gain, counts = accuracy_gain(predictions), count_changes(predictions)
    change = predictions.columns["change"]
    return {
        "said": gain_text(gain),
        "counts": {name: int((change == name).sum()) for name in CHANGES},
        "rows": gain.rows,
        "gain": value_with_interval(gain.gain, gain.low, gain.high),
        "p": round_decimals(gain.p, 6),
        "classes": [
            _class_changes(predictions, counts, at) for at in most_changed_classes(counts, _MAX_CLASSES_ON_PAGE)
        ],
        "total": len(predictions.classes),
        "matrix": _change_matrix(counts, _classes_with_most_moves(counts, _MAX_MATRIX_CLASSES)),
        "pairs": _largest_moves(counts),
    }


def _class_changes(predictions: ClassificationTable, counts: ChangeCounts, class_index: int) -> dict[str, Any]:
    support = int((predictions.target == class_index).sum())
    changes = {"fixed": int(counts.fixed[class_index]), "broken": int(counts.broken[class_index])}
    return {"at": class_index, "name": predictions.classes[class_index], **changes, "support": support}


def _classes_with_most_moves(counts: ChangeCounts, max_classes: int) -> list[int]:
    """Return the classes with the most changed predictions, in class order."""
    off_diagonal = counts.moves - np.diag(np.diag(counts.moves))
    order = np.argsort(-(off_diagonal.sum(0) + off_diagonal.sum(1)), kind="stable")[:max_classes]
    return sorted(int(index) for index in order if off_diagonal[index].any() or off_diagonal[:, index].any())


def _change_matrix(counts: ChangeCounts, class_indices: Sequence[int]) -> dict[str, Any]:
    """Return the changes among some classes, and how many of them are wrong now."""
    selection = np.ix_(class_indices, class_indices)
    names = [counts.names[i] for i in class_indices]
    return {
        "at": class_indices,
        "names": names,
        "moves": counts.moves[selection].tolist(),
        "wrong": counts.wrong[selection].tolist(),
    }


def _largest_moves(counts: ChangeCounts) -> list[dict[str, Any]]:
    off_diagonal = counts.moves - np.diag(np.diag(counts.moves))
    rows, columns = np.nonzero(off_diagonal)
    order = np.argsort(-off_diagonal[rows, columns], kind="stable")[:_MAX_PAIRS]
    cells = [(int(rows[i]), int(columns[i])) for i in order]
    return [
        {
            "at": [i, j],
            "names": [counts.names[i], counts.names[j]],
            "count": int(off_diagonal[i, j]),
            "wrong": int(counts.wrong[i, j]),
        }
        for i, j in cells
    ]


def _html(state: dict[str, Any]) -> str:
    body = [[row["name"], str(row["fixed"]), str(row["broken"]), str(row["support"])] for row in state["classes"][:12]]
    moves = [[" → ".join(move["names"]), str(move["count"]), str(move["wrong"])] for move in state["pairs"][:12]]
    return (
        html_paragraph(state["said"])
        + html_table([[name, str(count)] for name, count in state["counts"].items()], ("change", "samples"))
        + html_table(body, ("class", "fixed", "broken", "samples"))
        + html_table(moves, ("earlier → later prediction", "samples", "wrong now"))
    )


PANEL = Panel("flips", "Flips", _fits, state, _html)
