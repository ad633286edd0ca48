"""The panel of residuals: one column against another, each box of it a way to its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.metrics.binned import Binned, binned
from nbdebug.metrics.residuals import pattern
from nbdebug.predictions.query import column
from nbdebug.predictions.regression import Regression
from nbdebug.tools.errors.numbers import exact
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import paragraph, table
from nbdebug.views.plain import short

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

AT_ONCE = 1_000_000  # rows that are looked at without being asked


def fits(errors: Errors) -> bool:
    """Whether there are real numbers with two columns to draw."""
    return isinstance(errors.table, Regression) and len(names(errors)) > 1 and len(errors.table) > 0


def names(errors: Errors) -> list[str]:
    """The columns that hold numbers."""
    return [name for name, values in errors.table.columns.items() if values.dtype.kind in "fiu"]


def state(errors: Errors, x: str | None = None, y: str | None = None, now: bool = False) -> dict[str, Any]:
    """What the page draws: residual against prediction, or two columns by name.

    Of many rows nothing is computed until ``now``. Raises SetupError for a column that there is not, or of texts.
    """
    known = names(errors)
    across, up = x or first(known, ("prediction", "loss")), y or first(known, ("residual", "worst residual"))
    head = {"names": known, "x": across, "y": up, "later": False, "plot": None, "said": ""}
    if len(errors.table) > AT_ONCE and not (now or x or y):
        return {**head, "later": True}
    values = [numbers(errors, name) for name in (across, up)]
    found = binned(*values)
    if found is None:
        return {**head, "said": f"No sample has a number for both {across} and {up}."}
    is_residual = up.startswith(("residual", "worst residual")) and across != up
    said = pattern(values[0], values[1], across) if is_residual else ""
    return {**head, "plot": drawn(found, values), "said": said}


def first(known: list[str], wanted: tuple[str, ...]) -> str:
    """The first column that begins in one of the wanted ways, else the last one."""
    return next((name for way in wanted for name in known if name.startswith(way)), known[-1])


def numbers(errors: Errors, name: str) -> np.ndarray:
    """A column of numbers; raises SetupError for any other."""
    values = column(errors.table.columns, name)
    if values.dtype.kind not in "fiu":
        raise SetupError(f"column {name!r} holds texts; expected numbers. Take one of {', '.join(names(errors))}.")
    return values


def drawn(found: Binned, values: list[np.ndarray]) -> dict[str, Any]:
    """Boxes that hold something as (across, up, count), rows far out as (x, y, row), and the trend."""
    few = len(found.far) == found.rows
    across, up = np.nonzero(found.counts)
    cells = np.stack([across, up, found.counts[across, up]], 1).tolist() if not few else []
    points = zip(*(exact(one[found.far]) for one in values), found.far.tolist(), strict=True)
    return {
        "ends": [list(found.x), list(found.y)],
        "boxes": list(found.counts.shape),
        "cells": cells,
        "points": [list(one) for one in points],
        "trend": {name: exact(getattr(found.trend, name)) for name in ("x", "mean", "low", "high")},
        "rows": found.rows,
        "beyond": found.beyond,
    }


def html(state: dict[str, Any]) -> str:
    """What is said, and the trend as a table."""
    if state["plot"] is None:
        return paragraph(state["said"])
    line = state["plot"]["trend"]
    rows = [[short(value) for value in row] for row in zip(*(line[name] for name in line), strict=True)]
    head = (state["x"], f"mean {state['y']}", "a tenth lies below", "a tenth lies above")
    return paragraph(state["said"]) + table(rows, head)


PANEL = Panel("scatter", "Residuals", fits, state, html)
