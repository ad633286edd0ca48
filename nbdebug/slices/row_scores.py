"""The error of each row of a table, and columns as discrete levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.table import PredictionTable, Rows, factorize_texts
from nbdebug.slices.slice import MISSING_TEXTS, Condition, Slice, build_query, separating_bounds
from nbdebug.statistics.intervals import (
    CONFIDENCE_LEVEL,
    Floats,
    excess_z_score,
    fisher_tail,
    newcombe_interval,
    normal_tail,
    welch_interval,
)

# Columns computed from the prediction: they tell that a row is wrong, but not why.
_PREDICTION_COLUMNS = frozenset(
    (
        "change",
        "before",
        "chance",
        "neighbors_disagree",
        "loss",
        "confidence",
        "margin",
        "entropy",
        "prediction",
        "residual",
        "wrong labels",
        "iou",
        "dice",
    )
)
_PREDICTION_PREFIXES = ("prediction ", "residual ", "worst ")
FINE_QUANTILES = (0.02, *(i / 20 for i in range(1, 20)), 0.98)
COARSE_QUANTILES = (0.2, 0.4, 0.6, 0.8)
_MAX_VALUES = 30  # values of a category that become levels of their own
_MAX_RARE_VALUES = 50  # values that may be grouped as rare
_LevelCodes = NDArray[np.int64]
_WRONG = "wrong"


@dataclass(frozen=True, eq=False)
class SliceFeature:
    """A column as levels: ``codes`` has the level of each row, ``levels`` the condition of each level.

    The first ``ordered`` levels are ordered and may be merged with adjacent ones. The others stand alone; a level
    without a condition is skipped.
    """

    name: str
    codes: _LevelCodes
    levels: tuple[Condition | None, ...]
    ordered: int = 0

    @property
    def is_target(self) -> bool:
        """Return whether it is the target class, which is unknown before the prediction is made."""
        return any(level is not None and level.cells for level in self.levels)

    def condition(self, first: int, last: int) -> Condition | None:
        """Return the condition of the levels from ``first`` to ``last``."""
        first_level, last_level = self.levels[first], self.levels[last]
        if first == last or first_level is None or last_level is None:
            return first_level
        return Condition(self.name, first_level.low, last_level.high)


def slice_features(
    table: PredictionTable, rows: NDArray[np.int64], min_rows: int
) -> list[tuple[SliceFeature, SliceFeature]]:
    """Return each column in fine and in coarse levels; those computed from the prediction are left out."""
    pairs = []
    for name, values in table.columns.items():
        if not is_from_prediction(name) and values.ndim == 1:
            pairs.append(_column_levels(name, values[rows], min_rows))
    if isinstance(table, ClassificationTable):
        classes = _target_levels(table, rows, min_rows)
        pairs.append((classes, classes))
    return [pair for pair in pairs if len(pair[0].levels) > 1]


def is_from_prediction(name: str) -> bool:
    """Return whether a column is computed from the prediction; with several outputs, their name is appended."""
    return name in _PREDICTION_COLUMNS or name.startswith(_PREDICTION_PREFIXES)


def _column_levels(name: str, values: NDArray[Any], min_rows: int) -> tuple[SliceFeature, SliceFeature]:
    if values.dtype.kind in "fiu":
        return bin_by_quantiles(name, values, FINE_QUANTILES), bin_by_quantiles(name, values, COARSE_QUANTILES)
    feature = levels_by_value(name, values, min_rows)
    return feature, feature


def bin_by_quantiles(name: str, values: NDArray[Any], shares: tuple[float, ...]) -> SliceFeature:
    """Bin numbers so that bins hold about equal shares of rows; few distinct values become levels themselves."""
    is_known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
    ordered = np.sort(values[is_known])
    if not len(ordered):
        return SliceFeature(name, np.zeros(len(values), np.int64), (Condition(name, values=MISSING_TEXTS),))
    distinct = np.unique(ordered)
    indices = (np.asarray(shares) * (len(ordered) - 1)).astype(int)
    upper_values = distinct[:-1] if len(distinct) <= len(shares) + 1 else np.unique(ordered[indices])
    upper_values = upper_values[upper_values < ordered[-1]]
    next_values = ordered[np.searchsorted(ordered, upper_values, "right")]
    bounds = [
        separating_bounds(upper, lower, values.dtype) for upper, lower in zip(upper_values, next_values, strict=True)
    ]
    lows, highs = [None, *(lower for _, lower in bounds)], [*(upper for upper, _ in bounds), None]
    bins: tuple[Condition | None, ...] = tuple(Condition(name, *ends) for ends in zip(lows, highs, strict=True))
    codes = np.where(is_known, np.searchsorted(upper_values, values), len(bins))
    missing = () if is_known.all() else (Condition(name, values=MISSING_TEXTS),)
    return SliceFeature(name, codes, (*bins, *missing), len(bins))


def levels_by_value(name: str, values: NDArray[Any], min_rows: int) -> SliceFeature:
    """Return a level for each frequent value; rare values are grouped unless there are too many."""
    numbers, texts = factorize_texts(values)
    texts = np.where(np.isin(texts, MISSING_TEXTS), MISSING_TEXTS[0], texts)
    names, name_codes = np.unique(texts, return_inverse=True)
    codes = name_codes[numbers]
    counts = np.bincount(codes, minlength=len(names))
    frequent = np.argsort(-counts, kind="stable")[:_MAX_VALUES]
    frequent = frequent[counts[frequent] >= min(min_rows, len(values))]
    level_indices = np.full(len(names), len(frequent))
    level_indices[frequent] = np.arange(len(frequent))
    rare = tuple(
        text
        for value in names[(level_indices == len(frequent)) & (counts > 0)].tolist()
        for text in _value_texts(value)
    )
    rest = (Condition(name, values=rare) if len(rare) <= _MAX_RARE_VALUES else None,) if rare else ()
    return SliceFeature(
        name, level_indices[codes], (*(Condition(name, values=_value_texts(str(names[i]))) for i in frequent), *rest)
    )


def _value_texts(text: str) -> tuple[str, ...]:
    """Return the texts of a value; a missing value has several."""
    return MISSING_TEXTS if text in MISSING_TEXTS else (text,)


def _target_levels(table: ClassificationTable, rows: NDArray[np.int64], min_rows: int) -> SliceFeature:
    """Return a level for each frequent target class."""
    target, count = table.target[rows], len(table.classes)
    counts = np.bincount(target[target >= 0], minlength=count)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:_MAX_VALUES])
    frequent = frequent[counts[frequent] >= min_rows]
    level_indices = np.full(count + 1, len(frequent))
    level_indices[frequent] = np.arange(len(frequent))
    class_cells = [tuple((int(i), j) for j in range(count)) for i in frequent]
    conditions = [
        Condition("target", values=(table.classes[i],), cells=cells)
        for i, cells in zip(frequent, class_cells, strict=True)
    ]
    return SliceFeature("target", level_indices[target], (*conditions, None))


@dataclass(frozen=True, eq=False)
class RowErrors:
    """The error of each row, for a test: 1 for wrong and 0 for correct, or the rank of its loss."""

    values: Floats
    is_binary: bool

    @property
    def totals(self) -> tuple[int, float, float]:
        """Return the number of rows, their sum and their variance."""
        return len(self.values), float(self.values.sum()), float(self.values.var()) if len(self.values) else 0.0

    def subset(self, mask: NDArray[np.bool_]) -> RowErrors:
        """Return the values of some rows."""
        return RowErrors(self.values[mask], self.is_binary)

    def p_values(self, z: Floats, n: Floats, k: Floats, rows: Floats, total: Floats) -> Floats:
        """Return the p-values of z-scores: exact for 0/1 values, by the normal distribution for ranks."""
        return fisher_tail(n, k, rows, total) if self.is_binary else normal_tail(z)


@dataclass(frozen=True, eq=False)
class RowScores:
    """The rows with a known error, the error of each, and its name: "wrong", or the column of losses."""

    rows: Rows
    values: Floats
    measure: str

    def row_errors(self, rows: Rows | None = None) -> RowErrors:
        """Return the values for a test: 0/1 as they are, losses as ranks, so that a few huge ones do not dominate."""
        from scipy.stats import rankdata

        values = self.values if rows is None else self.values[rows]
        if self.measure == _WRONG or not len(values):
            return RowErrors(values, is_binary=True)
        return RowErrors(rankdata(values) / len(values), is_binary=False)


def score_rows(table: PredictionTable) -> RowScores:
    """Return the error of each row: wrong or correct if that is known, else its loss.

    Raises SetupError for a table that has neither.
    """
    if table.right is not None:
        is_known = np.ones(len(table), bool)
        if isinstance(table, ClassificationTable):
            is_known = (table.target >= 0) & (table.prediction >= 0)
        rows = np.flatnonzero(is_known)
        return RowScores(rows, (~table.right[rows]).astype(np.float64), _WRONG)
    if not table.severity_column:
        raise SetupError("the table has neither correct and wrong rows nor a loss; expected one. Pass a column 'loss'.")
    values = table.columns[table.severity_column].astype(np.float64)
    rows = np.flatnonzero(np.isfinite(values))
    return RowScores(rows, values[rows], table.severity_column)


def measure_slice(
    table: PredictionTable, row_scores: RowScores, conditions: Sequence[Condition], level: float = CONFIDENCE_LEVEL
) -> Slice:
    """Return a slice with its numbers over all rows of the table that match; ``p`` is that of a single test.

    Raises SetupError if fewer than two rows are in the slice or in the rest.
    """
    mask = np.zeros(len(table), bool)
    mask[table.matching_rows(build_query(conditions))] = True
    mask = mask[row_scores.rows]
    inside, rest = row_scores.values[mask], row_scores.values[~mask]
    if min(len(inside), len(rest)) < 2:
        raise SetupError(f"the slice has {len(inside)} of {len(mask)} rows; expected a part. Change it.")
    low, high = _difference_interval(row_scores.measure, inside, rest, level)
    p = _slice_p_value(row_scores.row_errors(), mask)
    return Slice(tuple(conditions), len(inside), float(inside.mean()), float(rest.mean()), low, high, p, p)


def _difference_interval(measure: str, inside: Floats, rest: Floats, level: float) -> tuple[float, float]:
    if measure != _WRONG:
        return welch_interval(inside, rest, level)
    low, high = newcombe_interval(inside.sum(), len(inside), rest.sum(), len(rest), level)
    return float(low), float(high)


def _slice_p_value(row_errors: RowErrors, mask: NDArray[np.bool_]) -> float:
    rows, total, variance = row_errors.totals
    n, k = np.array([mask.sum()], np.float64), np.array([row_errors.values[mask].sum()])
    z = excess_z_score(n, k, rows, total, variance)
    return float(row_errors.p_values(z, n, k, np.array([float(rows)]), np.array([total]))[0])


def count_unscored_rows(table: PredictionTable, row_scores: RowScores) -> int:
    """Return the number of rows without a known error."""
    return len(table) - len(row_scores.rows)
