"""The panel of classes: scores, confusions, curves and thresholds of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.formatting import (
    finite_or_none,
    html_paragraph,
    interval_text,
    percent_text,
    round_all_decimals,
    value_with_interval,
)
from nbdebug.formatting import html_table as html_table
from nbdebug.metrics.classification import ClassProportions, confused_pairs
from nbdebug.metrics.roc import Curve, Thresholds, class_curves, simplify_curve, sweep_thresholds
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.multilabel import MultiLabelTable
from nbdebug.predictions.one_vs_rest import (
    OneVsRest,
    add_probability_column,
    get_class_index,
    get_one_vs_rest,
    has_probabilities,
)
from nbdebug.predictions.table import PredictionTable
from nbdebug.tools.errors.data import ClassScores, class_scores
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

_MAX_POINTS = 200
_MAX_CLASSES_ON_PAGE = 50  # classes on the page
_MAX_HTML_ROWS = 12
MAX_ROWS_WITHOUT_REQUEST = 50_000  # rows whose curves are computed without a request


def _class_curves_state(table: PredictionTable, class_index: int, requested: bool) -> dict[str, Any] | None:
    """Return the curves and thresholds of a class against the rest; None without probabilities.

    Thresholds select rows by a probability column, which is added to the table once the user ``asked`` for the class.
    """
    if requested:
        add_probability_column(table, class_index)
    class_scores = get_one_vs_rest(table, class_index)
    return (
        None
        if class_scores is None
        else {"at": class_index, **_curves_and_thresholds(class_scores, class_scores.column in table.columns)}
    )


def _curves_and_thresholds(class_scores: OneVsRest, with_thresholds: bool) -> dict[str, Any]:
    roc_and_precision_recall = class_curves(class_scores.probability, class_scores.target)
    positives = int(class_scores.target.sum())
    return {
        "name": class_scores.name,
        "of": positives,
        "others": len(class_scores.target) - positives,
        "roc": roc_and_precision_recall and _curve_state(roc_and_precision_recall.roc),
        "pr": roc_and_precision_recall and _curve_state(roc_and_precision_recall.precision_recall),
        "sweep": _thresholds_state(
            sweep_thresholds(class_scores.probability, class_scores.target, class_scores.threshold), class_scores.column
        )
        if with_thresholds
        else None,
    }


def _curve_state(curve: Curve) -> dict[str, Any]:
    """Thin a curve, and return it with its area."""
    selected = simplify_curve(curve.x, curve.y, _MAX_POINTS)
    columns = {name: round_all_decimals(getattr(curve, name)[selected]) for name in ("x", "y")}
    return {
        **columns,
        "at": round_all_decimals(curve.thresholds[selected]),
        "area": value_with_interval(curve.area, curve.low, curve.high),
    }


def _thresholds_state(class_thresholds: Thresholds, column: str) -> dict[str, Any]:
    """Return some thresholds with their counts; ``below`` is the highest probability under each."""
    selected = class_thresholds.page_indices(_MAX_POINTS)
    return {
        "column": column,
        "at": finite_or_none(class_thresholds.values[selected]),
        "below": finite_or_none(class_thresholds.below[selected]),
        "hits": class_thresholds.true_positives[selected].tolist(),
        "alarms": class_thresholds.false_positives[selected].tolist(),
        "usual": int(np.searchsorted(class_thresholds.values[selected], class_thresholds.default)),
    }


def state(errors: ErrorData, find: str = "", of: int | str | None = None) -> dict[str, Any]:
    """Return the classes whose name contains ``find``, lowest F1 first, and the curves of one class."""
    scores = class_scores(errors.table)
    assert scores is not None
    matching = _sort_by_f1(scores, str(find))
    return {
        "overall": [{"name": name, "value": value_with_interval(*value)} for name, value in scores.overall.items()],
        "classes": _class_rows(scores, matching[:_MAX_CLASSES_ON_PAGE]),
        "total": len(scores.names),
        "matching": len(matching),
        "find": str(find),
        "apart": scores.is_multilabel,
        "pairs": _confused_pair_states(errors.table),
        "ends": _ranking_queries(errors.table),
        "chances": has_probabilities(errors.table),
        "curves": _curves_state(errors, scores, matching, of),
    }


def _curves_state(
    errors: ErrorData, scores: ClassScores, class_indices: Sequence[int], of: int | str | None
) -> dict[str, Any] | None:
    """Return the curves of one class; None without probabilities, and for large tables without a request.

    By default the class is the second of two, or the one with the lowest F1.
    """
    first = 1 if len(scores.names) == 2 and not scores.is_multilabel else next(iter(class_indices), None)
    picked = first if of is None else get_class_index(scores.names, of)
    if (
        picked is None
        or not has_probabilities(errors.table)
        or (of is None and len(errors.table) > MAX_ROWS_WITHOUT_REQUEST)
    ):
        return None
    return _class_curves_state(errors.table, picked, of is not None)


def _sort_by_f1(scores: ClassScores, find: str) -> list[int]:
    """Return the classes whose name contains a text, lowest F1 first, absent classes last."""
    key = np.where(np.isnan(scores.scores.f1.value), np.inf, scores.scores.f1.value)
    order = np.lexsort((-scores.scores.support, key))
    return [int(i) for i in order if find.casefold() in scores.names[i].casefold()]


def _class_rows(scores: ClassScores, class_indices: Sequence[int]) -> list[dict[str, Any]]:
    shares = {
        name: _values_with_intervals(getattr(scores.scores, name), class_indices)
        for name in ("precision", "recall", "f1")
    }
    return [
        {
            "at": i,
            "name": scores.names[i],
            **{name: shares[name][position] for name in shares},
            "support": int(scores.scores.support[i]),
            "missed": int(scores.scores.support[i] - scores.hits[i]),
            "taken": int(scores.scores.predicted[i] - scores.hits[i]),
        }
        for position, i in enumerate(class_indices)
    ]


def _values_with_intervals(share: ClassProportions, class_indices: Sequence[int]) -> list[list[float | int | None]]:
    return [value_with_interval(share.value[i], share.low[i], share.high[i]) for i in class_indices]


def _confused_pair_states(table: PredictionTable) -> list[dict[str, Any]]:
    if not isinstance(table, ClassificationTable):
        return []
    names = table.classes
    return [
        {
            "cell": [pair.target, pair.prediction],
            "names": [names[pair.target], names[pair.prediction]],
            "count": pair.count,
            "back": pair.back,
            "share": value_with_interval(pair.share, pair.low, pair.high),
        }
        for pair in confused_pairs(table.matrix)
    ]


def _ranking_queries(table: PredictionTable) -> list[dict[str, Any]]:
    """Return queries for both ends of the table: largest errors, highest and lowest confidence."""
    confidence_column = "confidence" if "confidence" in table.columns else "margin"
    first = (
        [{"label": "largest errors", "query": {"right": False, "sort": table.severity_column, "descending": True}}]
        if table.severity_column
        else []
    )
    if confidence_column not in table.columns:
        return first or [{"label": name, "query": {"right": name == "right"}} for name in ("wrong", "right")]
    return first + [
        {
            "label": f"{'right' if right else 'wrong'}, {'most' if descending else 'least'} confident",
            "query": {"right": right, "sort": confidence_column, "descending": descending},
        }
        for right in (False, True)
        for descending in (True, False)
    ]


def _html(state: dict[str, Any]) -> str:
    words = ", ".join(f"{value['name']} {interval_text(value['value'])}" for value in state["overall"])
    class_states = state["classes"][:_MAX_HTML_ROWS]
    body = [
        [row["name"], *(interval_text(row[name]) for name in ("precision", "recall", "f1")), str(row["support"])]
        for row in class_states
    ]
    more = f"… and {state['total'] - len(class_states)} more classes: errors.per_class()"
    confused_rows = [
        [" predicted as ".join(pair["names"]), str(pair["count"]), percent_text(pair["share"][0])]
        for pair in state["pairs"]
    ]
    return (
        html_paragraph(words)
        + html_table(body, ("class", "precision", "recall", "F1", "samples"))
        + html_paragraph(more if len(class_states) < state["total"] else "")
        + html_table(confused_rows[:_MAX_HTML_ROWS], ("confused", "samples", "of its class"))
    )


def _fits(errors: ErrorData) -> bool:
    return isinstance(errors.table, (ClassificationTable, MultiLabelTable))


PANEL = Panel("classes", "Classes", _fits, state, _html)
