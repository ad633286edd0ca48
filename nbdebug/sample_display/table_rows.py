"""Renders table rows: names, values, and how far each value is from the typical values of its column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbdebug.formatting import format_value
from nbdebug.sample_display.arrays import Array, as_array
from nbdebug.sample_display.dataset_hints import DatasetHints
from nbdebug.statistics.intervals import robust_deviation

_MAX_ROWS = {False: 12, True: 500}  # rows
_OUTLIER_Z_SCORE = 3.5  # robust z-score: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993)
_MAX_Z_SCORE = 99.0  # of a value that differs from an otherwise constant column


@dataclass(frozen=True)
class TableRowRenderer:
    """Renders vectors of numbers and dictionaries of scalars; ``usual`` describes the typical range of each column."""

    names: Sequence[str] | None
    typical: Mapping[str, _TypicalRange]

    @classmethod
    def of(cls, values: Sequence[Any], hints: DatasetHints) -> TableRowRenderer | None:
        """Return the renderer if all values are numbers, rows of numbers, or dictionaries of scalars, else None."""
        rows = [row_values(value_or_row, hints.columns) for value_or_row in values]
        if any(value_or_row is None for value_or_row in rows):
            return None
        columns: dict[str, list[float]] = {}
        for row in rows:
            for name, value in (row or {}).items():
                if _is_number(value):
                    columns.setdefault(name, []).append(float(value))
        samples_by_column = {
            name: np.array(column_values) for name, column_values in columns.items() if len(column_values) >= 8
        }
        return cls(
            hints.columns, {name: _TypicalRange.of(column_values) for name, column_values in samples_by_column.items()}
        )

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """Render one row; a card shows the strongest outliers first if not all columns fit."""
        columns = row_values(value, self.names) or {}
        rows = [(name, _cell_text(cell), self.outlier_score(name, cell)) for name, cell in columns.items()]
        if len(rows) > _MAX_ROWS[full]:
            rows = sorted(rows, key=lambda row: -(row[2] or 0))[: _MAX_ROWS[full]]
        return {"kind": "table", "rows": [list(row) for row in rows], "more": len(columns) - len(rows)}

    def outlier_score(self, name: str, value: Any) -> float | None:
        """Return the robust z-score of a value if it is an outlier, else None."""
        if name not in self.typical or not _is_number(value):
            return None
        score = self.typical[name].z_score(float(value))
        return round(score, 1) if score > _OUTLIER_Z_SCORE else None


@dataclass(frozen=True)
class _TypicalRange:
    """The typical range of a column: median, robust standard deviation, and whether values are missing."""

    median: float
    spread: float
    has_missing: bool

    @classmethod
    def of(cls, values: Array) -> _TypicalRange:
        """Return the typical range; a column of two distinct values has no outliers."""
        observed = values[np.isfinite(values)]
        if not len(observed):
            return cls(0.0, np.inf, True)
        spread = np.inf if len(np.unique(observed)) == 2 else robust_deviation(observed)
        return cls(float(np.median(observed)), spread, len(observed) < len(values))

    def z_score(self, value: float) -> float:
        """Return the absolute robust z-score of a value."""
        if not np.isfinite(value):
            return 0.0 if self.has_missing else _MAX_Z_SCORE
        if self.spread == 0:
            return 0.0 if value == self.median else _MAX_Z_SCORE
        return min(abs(value - self.median) / self.spread, _MAX_Z_SCORE)


def row_values(value: Any, names: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the values of a row by name; None if this is not a row. Of very long rows, only nonzero values."""
    if hasattr(value, "items") and not hasattr(value, "detach"):
        row = {str(key): _to_python_scalar(cell) for key, cell in value.items()}
        return row if all(_is_scalar_value(cell) for cell in row.values()) else None
    if getattr(getattr(value, "dtype", None), "names", None):
        return {name: value[name].item() for name in value.dtype.names}
    array = as_array(value if not _is_scalar_value(value) or isinstance(value, (str, bytes)) else [value])
    if array is None or array.ndim > 2 or (array.ndim == 2 and 1 not in array.shape):
        return None
    flat = array.reshape(-1)
    column_names = list(names) if names is not None and len(names) == flat.size else None
    positions = np.flatnonzero(flat) if flat.size > _MAX_ROWS[True] and flat.any() else np.arange(flat.size)
    return {
        column_names[i] if column_names else f"feature {i}" if flat.size > 1 else "value": flat[i].item()
        for i in positions
    }


def _to_python_scalar(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def _is_scalar_value(value: Any) -> bool:
    return (
        value is None or isinstance(value, (bool, int, float, complex, str, np.generic)) or hasattr(value, "isoformat")
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _cell_text(value: Any) -> str:
    if isinstance(value, float) and np.isnan(value):
        return "missing"
    return format_value(value)[:200]
