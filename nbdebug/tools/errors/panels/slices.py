"""The panel of slices: subsets of the data with more errors than the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.formatting import round_numbers
from nbdebug.slices.slice import (
    MAX_VALUES_ON_PAGE,
    SIGNIFICANT_DIGITS,
    Condition,
    slice_state,
    slices_html,
    slices_state,
)
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

MAX_VALUES_WITHOUT_REQUEST = 400_000  # values searched without a request
_MAX_CLUSTERED_ROWS_WITHOUT_REQUEST = 5_000  # rows clustered without a request
_MAX_CHECKED_ROWS, _MAX_COLUMNS = 20_000, 200


def _fits(errors: ErrorData) -> bool:
    """Check whether rows are right or wrong, or have a loss."""
    return len(errors.table) > 0 and (errors.table.right is not None or bool(errors.table.severity_column))


def state(errors: ErrorData, now: bool = False, own: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the weak slices; of a large table only ``now``, on request. ``own`` are the user's conditions.

    Raises SetupError if no row fulfills ``own``.
    """
    columns = [_column_state(name, values) for name, values in list(errors.table.columns.items())[:_MAX_COLUMNS]]
    if not (now or own) and _is_large(errors):
        return {"late": True, "columns": columns}
    slices = slices_state(errors.slices())
    return {**slices, "columns": columns, "own": _own_slice_state(errors, own) if own else None}


def _is_large(errors: ErrorData) -> bool:
    """Check whether the search takes too long to run without a request."""
    table = errors.table
    if ("slices",) in errors._cache:
        return False
    return len(table) * len(table.columns) > MAX_VALUES_WITHOUT_REQUEST or (
        table.embedding is not None and len(table) > _MAX_CLUSTERED_ROWS_WITHOUT_REQUEST
    )


def _own_slice_state(errors: ErrorData, own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    from nbdebug.slices.row_scores import measure_slice, score_rows

    conditions = [
        Condition(
            str(condition["column"]),
            condition.get("low"),
            condition.get("high"),
            tuple(map(str, condition.get("values") or ())),
        )
        for condition in own
    ]
    return slice_state(measure_slice(errors.table, score_rows(errors.table), conditions))


def _column_state(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """Return a column to choose from: its range, or its values, the most frequent first."""
    if values.dtype.kind in "fiu":
        finite = values[np.isfinite(values)]
        ends = [finite.min(), finite.max()] if len(finite) else [np.nan, np.nan]
        low, high = round_numbers(ends, SIGNIFICANT_DIGITS)
        return {"name": name, "kind": "number", "values": [], "low": low, "high": high}
    sampled = values[:: max(1, len(values) // _MAX_CHECKED_ROWS)].astype(str)
    texts, counts = np.unique(sampled, return_counts=True)
    most_frequent = texts[np.argsort(-counts, kind="stable")[:MAX_VALUES_ON_PAGE]]
    return {"name": name, "kind": "text", "values": most_frequent.tolist(), "low": None, "high": None}


PANEL = Panel("slices", "Slices", _fits, state, slices_html)
