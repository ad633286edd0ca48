"""The panel of baselines: what the model has to beat, beside what it gets, and the rows that only a baseline has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.baselines import Baselines, Versus
from nbdebug.baselines.result import number
from nbdebug.baselines.scored import HIGHER, MODEL
from nbdebug.exceptions import SetupError
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

MOST_ROWS = 5000
HEAD = ("answer", "metric", "value", "interval", "the model is better by")


def fits(errors: Errors) -> bool:
    """Whether the table is of one class or one number a row."""
    from nbdebug.baselines.tasks import task_of

    try:
        return bool(task_of(errors.table).judged.any())
    except SetupError:
        return False


def state(errors: Errors) -> dict[str, Any]:
    """Bars for each metric, and the rows that only a baseline gets right."""
    found = errors.baselines()
    return {
        "headline": plain(found.headline),
        "metrics": [metric(found, name) for name in found.metrics],
        "only": {name: rows[:MOST_ROWS].tolist() for name, rows in found.only.items() if len(rows)},
        "right": errors.table.right is not None,
        "rows": found.rows,
        "notes": plain(list(found.notes)),
    }


def metric(found: Baselines, name: str) -> dict[str, Any]:
    """One metric of all answerers that have it, the model first, and the ends of its axis."""
    several = [one for one in found.versus if one.metric == name]
    ends = [end for one in several for end in (one.low, one.high) if np.isfinite(end)]
    axis = (0.0, 1.0) if name in HIGHER else (0.0, max(ends, default=1.0) or 1.0)
    return {"name": name, "axis": axis, "bars": [bar(found, one) for one in several]}


def bar(found: Baselines, one: Versus) -> dict[str, Any]:
    """One bar with its interval, and what is said of it."""
    ends = {name: plain(getattr(one, name)) for name in ("value", "low", "high")}
    words = {
        "text": number(one.metric, one.value),
        "interval": f"{number(one.metric, one.low)} to {number(one.metric, one.high)}",
        "gain": ""
        if one.name == MODEL
        else f"{number(one.metric, one.gain_low, True)} to {number(one.metric, one.gain_high, True)}",
    }
    verdict = "" if one.name == MODEL or one.beaten else "worse" if one.gain_high < 0 else "same"
    return {"name": one.name, "said": plain(found.said[one.name]), **ends, **words, "verdict": verdict}


def html(state: dict[str, Any]) -> str:
    """The same as a table."""
    bars = [(one["name"], bar["name"], bar) for one in state["metrics"] for bar in one["bars"]]
    rows = [(name, metric, bar["text"], bar["interval"], bar["gain"]) for metric, name, bar in bars]
    return paragraph(state["headline"]) + table(rows, HEAD) + listed(state["notes"])


PANEL = Panel(name="baselines", title="Baselines", fits=fits, state=state, html=html, quick=False)
