"""The panel of residuals: one column against another; each box selects its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.formatting import finite_or_none, format_value, html_paragraph, html_table
from nbdebug.metrics.regression import Histogram2D, histogram_2d, residual_pattern
from nbdebug.predictions.regression import RegressionTable
from nbdebug.predictions.table import get_column
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

MAX_ROWS_WITHOUT_REQUEST = 1_000_000  # rows computed without a request


def _fits(errors: ErrorData) -> bool:
    return isinstance(errors.table, RegressionTable) and len(_number_columns(errors)) > 1 and len(errors.table) > 0


def _number_columns(errors: ErrorData) -> list[str]:
    return [name for name, values in errors.table.columns.items() if values.dtype.kind in "fiu"]


def state(errors: ErrorData, x: str | None = None, y: str | None = None, now: bool = False) -> dict[str, Any]:
    """Return residuals against predictions, or two columns by name.

    Large tables are computed only ``now``, on request. Raises SetupError for an unknown column, or one of texts.
    """
    column_names = _number_columns(errors)
    x_name, y_name = (
        x or _first_with_prefix(column_names, ("prediction", "loss")),
        y or _first_with_prefix(column_names, ("residual", "worst residual")),
    )
    head = {"names": column_names, "x": x_name, "y": y_name, "later": False, "plot": None, "said": ""}
    if len(errors.table) > MAX_ROWS_WITHOUT_REQUEST and not (now or x or y):
        return {**head, "later": True}
    values = [_column_numbers(errors, name) for name in (x_name, y_name)]
    binned_values = histogram_2d(*values)
    if binned_values is None:
        return {**head, "said": f"No sample has a number for both {x_name} and {y_name}."}
    is_residual = y_name.startswith(("residual", "worst residual")) and x_name != y_name
    text = residual_pattern(values[0], values[1], x_name) if is_residual else ""
    return {**head, "plot": _plot_state(binned_values, values), "said": text}


def _first_with_prefix(column_names: list[str], prefixes: tuple[str, ...]) -> str:
    """Return the first column with one of the prefixes, or else the last column."""
    return next((name for prefix in prefixes for name in column_names if name.startswith(prefix)), column_names[-1])


def _column_numbers(errors: ErrorData, name: str) -> np.ndarray:
    values = get_column(errors.table.columns, name)
    if values.dtype.kind not in "fiu":
        raise SetupError(
            f"column {name!r} holds texts; expected numbers. Choose one of {', '.join(_number_columns(errors))}."
        )
    return values


def _plot_state(binned_values: Histogram2D, values: list[np.ndarray]) -> dict[str, Any]:
    """Return nonempty boxes as (column, row, count), outliers as (x, y, row), and the trend."""
    all_are_outliers = len(binned_values.outliers) == binned_values.rows
    columns, rows = np.nonzero(binned_values.counts)
    cells = np.stack([columns, rows, binned_values.counts[columns, rows]], 1).tolist() if not all_are_outliers else []
    points = zip(
        *(finite_or_none(column_values[binned_values.outliers]) for column_values in values),
        binned_values.outliers.tolist(),
        strict=True,
    )
    return {
        "ends": [list(binned_values.x), list(binned_values.y)],
        "boxes": list(binned_values.counts.shape),
        "cells": cells,
        "points": [list(column_values) for column_values in points],
        "trend": {name: finite_or_none(getattr(binned_values.trend, name)) for name in ("x", "mean", "low", "high")},
        "rows": binned_values.rows,
        "beyond": binned_values.outside,
    }


def _html(state: dict[str, Any]) -> str:
    if state["plot"] is None:
        return html_paragraph(state["said"])
    trend = state["plot"]["trend"]
    rows = [[format_value(value) for value in row] for row in zip(*(trend[name] for name in trend), strict=True)]
    head = (state["x"], f"mean {state['y']}", "10% quantile", "90% quantile")
    return html_paragraph(state["said"]) + html_table(rows, head)


PANEL = Panel("residuals", "Residuals", _fits, state, _html)
