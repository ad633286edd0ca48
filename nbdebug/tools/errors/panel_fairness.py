"""The panel of fairness: the rates of each group of a column."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.predictions.classes import Predictions
from nbdebug.slices.condition import asked
from nbdebug.slices.fairness import Fairness
from nbdebug.slices.features import is_said
from nbdebug.slices.groups import Group
from nbdebug.tools.panel import Panel
from nbdebug.views.errors.panel_page import PanelView
from nbdebug.views.markup import paragraph, table
from nbdebug.views.plain import rounded

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

DIGITS = 6  # so that a share is rounded once, by the page
CLASSES, VALUES, LOOKED = 200, 50, 20_000
Shares = list[float | int | None]


def fits(errors: Errors) -> bool:
    """Whether there is a column that makes groups of a classifier's rows."""
    return isinstance(errors.table, Predictions) and bool(attributes(errors))


def attributes(errors: Errors) -> list[str]:
    """The columns that make groups: numbers, and texts of which there are few."""
    return [name for name, values in errors.table.columns.items() if not is_said(name) and makes_groups(values)]


def makes_groups(values: np.ndarray) -> bool:
    """Whether a column has at most fifty different texts, or is of numbers."""
    if values.dtype.kind in "fiu":
        return True
    return len(np.unique(values[:: max(1, len(values) // LOOKED)].astype(str))) <= VALUES


def state(errors: Errors, by: str = "", positive: str | None = None) -> dict[str, Any]:
    """What the page draws: the groups of a column, else of the one that was asked for last."""
    asked_before = [one for one in errors.known.values() if isinstance(one, Fairness)]
    last = asked_before[-1] if asked_before else None
    found = errors.fairness(by, positive) if by else last
    choices = {
        "columns": attributes(errors),
        "classes": list(errors.table.grid.rows[:CLASSES]) if errors.table.grid else [],
    }
    return {**choices, **(found_state(found) if found else {"by": "", "positive": ""})}


def found_state(found: Fairness) -> dict[str, Any]:
    """The groups with their rates, and the gaps."""
    gaps = {name: {**asdict(one), "real": one.is_real} for name, one in found.gaps.items()}
    return {
        "by": found.by,
        "positive": found.positive,
        "headline": found.headline,
        "fewest": found.fewest,
        "groups": [group(one) for one in found.groups],
        "gaps": {name: {key: tidy(value) for key, value in one.items()} for name, one in gaps.items()},
        "criteria": {name: rounded(value, DIGITS) for name, value in found.criteria.items()},
    }


def group(one: Group) -> dict[str, Any]:
    """One group: its rates as value, low, high and rows."""
    rates = {name: [*shares(rate.value, rate.low, rate.high), rate.rows] for name, rate in one.rates.items()}
    sure = {
        "confidence": shares(*one.confidence),
        "error": rounded(one.error, DIGITS),
        "chance": rounded(one.chance, DIGITS),
    }
    return {
        "name": one.name,
        "rows": one.rows,
        "small": one.is_small,
        "query": asked([one.condition]),
        "rates": rates,
        **sure,
    }


def shares(*values: float) -> Shares:
    """Numbers ready for JSON."""
    return [rounded(float(value), DIGITS) for value in values]


def tidy(value: Any) -> Any:
    """The same of one value, if it is a number."""
    return rounded(value, DIGITS) if isinstance(value, float) else value


def html(state: dict[str, Any]) -> str:
    """The same as plain tables."""
    if not state["by"]:
        return ""
    names = list(state["groups"][0]["rates"]) if state["groups"] else []
    rows = [
        [one["name"], str(one["rows"]), *(percent(one["rates"][name]) for name in names)] for one in state["groups"]
    ]
    return paragraph(f"Fairness: {state['headline']}") + table(rows, (state["by"], "samples", *names))


def percent(rate: Shares) -> str:
    """A share with its interval."""
    value, low, high, _ = rate
    return "–" if value is None or low is None or high is None else f"{value:.1%} ({low:.1%} to {high:.1%})"


def page(found: Fairness) -> PanelView:
    """The groups on a page of their own."""
    drawn = {"columns": [], "classes": [], **found_state(found)}
    return PanelView("fairness", f"Groups of {found.by}", drawn, html(drawn))


PANEL = Panel("fairness", "Fairness", fits, state, html)
