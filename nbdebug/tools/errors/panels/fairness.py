"""The panel of fairness: the rates of each group of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.predictions.classification import ClassificationTable
from nbdebug.slices.fairness import Fairness, fairness_html, fairness_state
from nbdebug.slices.row_scores import is_from_prediction
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

_MAX_CLASSES, _MAX_VALUES, _MAX_CHECKED_ROWS = 200, 50, 20_000


def _fits(errors: ErrorData) -> bool:
    return isinstance(errors.table, ClassificationTable) and bool(_group_columns(errors))


def _group_columns(errors: ErrorData) -> list[str]:
    """Return the columns that define groups: numbers, and texts with few distinct values."""
    return [
        name
        for name, values in errors.table.columns.items()
        if not is_from_prediction(name) and _defines_groups(values)
    ]


def _defines_groups(values: np.ndarray) -> bool:
    """Check whether a column is numeric or has at most 50 distinct texts."""
    if values.dtype.kind in "fiu":
        return True
    return len(np.unique(values[:: max(1, len(values) // _MAX_CHECKED_ROWS)].astype(str))) <= _MAX_VALUES


def state(errors: ErrorData, by: str = "", positive: str | None = None) -> dict[str, Any]:
    """Return the groups of a column, by default of the latest request."""
    earlier_results = [result for result in errors._cache.values() if isinstance(result, Fairness)]
    latest = earlier_results[-1] if earlier_results else None
    fairness = errors.fairness(by, positive) if by else latest
    choices = {
        "columns": _group_columns(errors),
        "classes": list(errors.table.grid.rows[:_MAX_CLASSES]) if errors.table.grid else [],
    }
    return {**choices, **(fairness_state(fairness) if fairness else {"by": "", "positive": ""})}


PANEL = Panel("fairness", "Fairness", _fits, state, fairness_html)
