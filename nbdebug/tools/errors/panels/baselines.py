"""The panel of baselines: simple baselines next to the model, and the rows that only a baseline predicts correctly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.baselines.baselines import Baselines, format_metric
from nbdebug.baselines.comparison import HIGHER_IS_BETTER, MODEL, MetricComparison
from nbdebug.exceptions import SetupError
from nbdebug.formatting import html_list, html_paragraph, html_table, to_json_value
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

_MAX_ROWS = 5000
_HEAD = ("answer", "metric", "value", "interval", "the model is better by")


def fits(errors: ErrorData) -> bool:
    """Check whether each row has one class or one number."""
    from nbdebug.baselines.models import get_baseline_task

    try:
        return bool(get_baseline_task(errors.table).is_evaluated.any())
    except SetupError:
        return False


def state(errors: ErrorData) -> dict[str, Any]:
    """Return bars for each metric, and the rows that only a baseline predicts correctly."""
    result = errors.baselines()
    return {
        "headline": to_json_value(result.headline),
        "metrics": [_metric_state(result, name) for name in result.metrics],
        "only": {name: rows[:_MAX_ROWS].tolist() for name, rows in result.only.items() if len(rows)},
        "right": errors.table.right is not None,
        "rows": result.rows,
        "notes": to_json_value(list(result.notes)),
    }


def _metric_state(result: Baselines, name: str) -> dict[str, Any]:
    """Return the bars of one metric, the model first, and the range of its axis."""
    entries = [entry for entry in result.comparisons if entry.metric == name]
    ends = [end for entry in entries for end in (entry.low, entry.high) if np.isfinite(end)]
    axis = (0.0, 1.0) if name in HIGHER_IS_BETTER else (0.0, max(ends, default=1.0) or 1.0)
    return {"name": name, "axis": axis, "bars": [_bar_state(result, entry) for entry in entries]}


def _bar_state(result: Baselines, entry: MetricComparison) -> dict[str, Any]:
    ends = {name: to_json_value(getattr(entry, name)) for name in ("value", "low", "high")}
    texts = {
        "text": format_metric(entry.metric, entry.value),
        "interval": f"{format_metric(entry.metric, entry.low)} to {format_metric(entry.metric, entry.high)}",
        "gain": ""
        if entry.name == MODEL
        else f"{format_metric(entry.metric, entry.gain_low, True)} to "
        f"{format_metric(entry.metric, entry.gain_high, True)}",
    }
    verdict = "" if entry.name == MODEL or entry.is_beaten else "worse" if entry.gain_high < 0 else "same"
    return {
        "name": entry.name,
        "said": to_json_value(result.descriptions[entry.name]),
        **ends,
        **texts,
        "verdict": verdict,
    }


def html(state: dict[str, Any]) -> str:
    """Return the panel as an HTML table."""
    bars = [(metric_bars["name"], bar["name"], bar) for metric_bars in state["metrics"] for bar in metric_bars["bars"]]
    rows = [(name, metric, bar["text"], bar["interval"], bar["gain"]) for metric, name, bar in bars]
    return html_paragraph(state["headline"]) + html_table(rows, _HEAD) + html_list(state["notes"])


PANEL = Panel(name="baselines", title="Baselines", fits=fits, state=state, html=html, quick=False)
