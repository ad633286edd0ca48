"""The prediction table: columns, queries, sorting and filtering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.classification import Counts
from nbdebug.statistics.intervals import proportion

if TYPE_CHECKING:
    import pandas
    from typing_extensions import Self

_Positions = NDArray[np.intp]
_SAMPLE_SIZE = 4096
Rows = NDArray[np.int64]
_Bounds = tuple[float | None, float | None]
_MIN_SORTED_ROWS = 1000  # minimum number of rows that are sorted at once
_SEVERITY_COLUMNS = ("loss", "confidence")


@dataclass(frozen=True)
class Grid:
    """Counts, rows × columns, and the names of both.

    ``unit`` is what is counted: samples, or their pixels or tokens. ``diagonal`` says whether the diagonal cells are
    correct; otherwise ``correct_columns`` lists the correct columns.
    """

    counts: Counts
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str = "target"
    column_title: str = "prediction"
    unit: str = "samples"
    diagonal: bool = True
    correct_columns: tuple[int, ...] = ()


def describe_accuracy(matrix: Counts, rows: int) -> str:
    """Describe the accuracy of a confusion matrix with its interval; ``rows`` also counts rows without a target."""
    counted = int(matrix.sum())
    if not counted:
        return f"none of {rows:,} samples has both a target and a prediction"
    accuracy = proportion(int(matrix.trace()), counted)
    return f"{accuracy.value:.1%} of {counted:,} samples correct ({accuracy.low:.1%} to {accuracy.high:.1%})"


class TextCache:
    """A cache of column values as text; each distinct value is converted once."""

    def __init__(self) -> None:
        self.factorized: dict[str, tuple[NDArray[Any], NDArray[np.str_]]] = {}

    def is_among(self, name: str, values: NDArray[Any], allowed: Sequence[str]) -> NDArray[np.bool_]:
        """Return which values of a column are among ``allowed``, as text."""
        if values.dtype.kind == "U":
            return np.asarray(np.any([values == text for text in allowed], axis=0))
        codes, distinct = self.factorize_column(name, values)
        return np.asarray(np.isin(distinct, list(allowed))[codes])

    def ranks(self, name: str, values: NDArray[Any], descending: bool) -> NDArray[Any]:
        """Return the rank of each value among the distinct texts; missing values come last."""
        codes, distinct = self.factorize_column(name, values)
        rank_by_code = np.full(len(distinct), -1 if descending else len(distinct), np.int32)
        rank_by_code[np.argsort(distinct[:-1], kind="stable")] = np.arange(len(distinct) - 1)
        return np.asarray(rank_by_code[codes])

    def factorize_column(self, name: str, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.str_]]:
        """Return a code for each value of a column, and the text of each code."""
        if name not in self.factorized:
            self.factorized[name] = factorize_texts(values)
        return self.factorized[name]


def factorize_texts(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.str_]]:
    """Return a code for each value, and the text of each code; None and NaN share the last code."""
    import pandas as pd

    codes, distinct = pd.factorize(values)
    missing = str(values[np.argmin(codes)]) if len(values) else ""
    dtype = np.min_scalar_type(-len(distinct) - 1)
    return codes.astype(dtype), np.append(np.asarray(distinct).astype(str), missing)


def highest_positions(values: NDArray[Any], limit: int) -> _Positions:
    """Return the positions of at most ``limit`` highest values, highest first; stable, NaN last."""
    # The complement reverses the order of integers; unlike negation also of unsigned ones, the minimum and bools.
    return lowest_positions(-values if values.dtype.kind == "f" else ~values, limit)


def lowest_positions(values: NDArray[Any], limit: int) -> _Positions:
    """Return the positions of at most ``limit`` lowest values, lowest first; stable, NaN last."""
    candidates = _candidate_positions(values, limit)
    return (
        _exact_lowest_positions(values, limit)
        if candidates is None
        else candidates[_exact_lowest_positions(values[candidates], limit)]
    )


def _exact_lowest_positions(values: NDArray[Any], limit: int) -> _Positions:
    """Return the same from all values."""
    if limit < 1 or len(values) <= limit:
        return np.argsort(values, kind="stable")[:limit]
    edge = np.partition(values, limit - 1)[limit - 1]
    is_number = values == values
    is_below, is_tied = (values < edge, values == edge) if edge == edge else (is_number, ~is_number)
    first = np.flatnonzero(is_below)
    last = np.flatnonzero(is_tied)[: limit - len(first)]
    return np.concatenate([first[np.argsort(values[first], kind="stable")], last])


def _candidate_positions(values: NDArray[Any], limit: int) -> _Positions | None:
    """Return a few positions that include all of the lowest; None if a sample does not yield them."""
    step = len(values) // _SAMPLE_SIZE
    rank = 2 * limit // step + 16 if step else _SAMPLE_SIZE
    if rank > _SAMPLE_SIZE // 4:
        return None
    candidates = np.flatnonzero(values <= np.partition(values[::step], rank)[rank])
    return candidates if limit <= len(candidates) <= len(values) // 2 else None


@dataclass(frozen=True)
class Query:
    """A filter by grid cells, column ranges, column values and a set of rows (all must hold), and an order.

    ``cells`` are (row, column) pairs of the grid, any of which may match. ``ranges`` maps a column to its lowest and
    highest value, both included, None for no bound. ``values`` maps a column to the allowed values, as text. ``right``
    selects correct or wrong rows only. ``rows`` restricts to some rows, such as those with a tag. ``sort`` is a column,
    or "" for table order; NaN comes last in either direction.
    """

    cells: tuple[tuple[int, int], ...] = ()
    ranges: Mapping[str, _Bounds] = field(default_factory=dict)
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    right: bool | None = None
    rows: Sequence[int] | Rows | None = None
    sort: str | None = None
    descending: bool = True
    start: int = 0
    count: int = 24

    @classmethod
    def from_request(cls, request: Mapping[str, Any]) -> Query:
        """Return the query of a request from a page; missing entries have their defaults."""
        options = {name: request[name] for name in cls.__dataclass_fields__ if request.get(name) is not None}
        if "cells" in options:
            options["cells"] = tuple((int(i), int(j)) for i, j in options["cells"])
        return cls(**options)

    @property
    def selects_all(self) -> bool:
        """Return whether all rows match."""
        has_no_filter = not self.cells and not self.ranges and not self.values
        return has_no_filter and self.right is None and self.rows is None

    @property
    def selects_one_cell(self) -> bool:
        """Return whether the only filter is one cell, in the default order."""
        has_no_other_filter = not self.ranges and not self.values and self.right is None and self.rows is None
        return has_no_other_filter and len(self.cells) == 1 and self.sort is None and self.descending


@dataclass(frozen=True)
class Page:
    """Some of the matching rows in order, and how many rows match in total."""

    rows: Rows
    total: int


def matching_mask(
    columns: Mapping[str, NDArray[Any]], query: Query, count: int, text_cache: TextCache
) -> NDArray[np.bool_]:
    """Return which of ``count`` rows have the requested values and lie in the requested ranges.

    Raises SetupError for an unknown column.
    """
    matches = np.ones(count, bool)
    for name, (low, high) in query.ranges.items():
        values = get_column(columns, name)
        if low is not None:
            matches &= values >= low
        if high is not None:
            matches &= values <= high
    for name, allowed in query.values.items():
        matches &= text_cache.is_among(name, get_column(columns, name), allowed)
    return matches


def get_column(columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """Return one column; raise SetupError if there is none of that name."""
    if name not in columns:
        raise SetupError(f"column is {name!r}; expected one of {', '.join(columns) or 'none'}. Pass one of these.")
    return columns[name]


def _sort_rows(values: NDArray[Any], rows: Rows | None, descending: bool, first: int) -> Rows:
    """Return the first of ``rows`` (None for all) sorted by ``values``; the sort is stable and NaN comes last."""
    sort_values = values if rows is None else values[rows]
    order = highest_positions(sort_values, first) if descending else lowest_positions(sort_values, first)
    return np.asarray(order if rows is None else rows[order], np.int64)


class _QueryCache:
    """The rows of the last filter, and the first rows of the last order."""

    def __init__(self) -> None:
        self.last_filter: Any = None
        self.rows: Rows = np.empty(0, np.int64)
        self.last_order: Any = None
        self.first_sorted: Rows = self.rows

    def matching_rows(self, query: Query, compute: Callable[[Query], Rows]) -> Rows:
        """Return all rows of a query in table order; reuse the last ones if only order or page differ."""
        key = filter_key(query)
        if self.last_filter != key:
            self.rows, self.last_filter = compute(query), key
        return self.rows

    def first_rows(self, order: Any, limit: int, sort: Callable[[int], Rows]) -> Rows:
        """Return at least ``limit`` rows in an order; ``sort`` computes them if the order is new."""
        if self.last_order != order or len(self.first_sorted) < limit:
            self.first_sorted, self.last_order = sort(max(2 * limit, _MIN_SORTED_ROWS)), order
        return self.first_sorted


def filter_key(query: Query) -> Any:
    """Return the filter of a query as a comparable key, without its order and page."""
    ranges = tuple((name, tuple(bounds)) for name, bounds in query.ranges.items())
    values = tuple((name, tuple(allowed)) for name, allowed in query.values.items())
    rows = None if query.rows is None else np.asarray(query.rows, np.int64).tobytes()
    return query.cells, ranges, values, query.right, rows


@dataclass(frozen=True, kw_only=True)
class PredictionTable:
    """Predictions for each sample; all columns have the same length. Each subclass stands for one task.

    ``in_memory`` says whether the values of all rows are in memory, as analyses of all rows need it. ``index`` is the
    dataset index of each row, if known. Rows are sorted and filtered by ``columns``: loss, confidence and the like, and
    any columns that the user adds. ``embedding`` has shape (rows, features), if requested.
    """

    task: ClassVar[str] = ""
    in_memory: ClassVar[bool] = True
    arrays_without_rows: ClassVar[tuple[str, ...]] = ()  # arrays without one row per sample

    index: NDArray[np.int64] | None = None
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    embedding: NDArray[np.float32] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def right(self) -> NDArray[np.bool_] | None:
        """Return which rows are correct; None if that is undefined, as for real numbers."""
        return None

    @cached_property
    def grid(self) -> Grid | None:
        """Return the overview as a grid of counts; None if there is none."""
        return None

    def rows_in_cell(self, row: int, column: int) -> Rows:
        """Return the rows behind one cell of the grid, in table order."""
        raise SetupError(f"cell is ({row}, {column}); expected a table with a grid. Filter by columns instead.")

    def describe_row(self, row: int) -> dict[str, str]:
        """Return the caption of a sample: usually its target and its prediction."""
        raise NotImplementedError

    def headline(self) -> str:
        """Return the result in one line."""
        return f"{len(self)} samples"

    @property
    def severity_column(self) -> str:
        """Return the column that measures how wrong a row is; "" if there is none."""
        return next((name for name in _SEVERITY_COLUMNS if name in self.columns), "")

    def page(self, query: Query) -> Page:
        """Return the requested rows. Raises SetupError for an unknown column."""
        rows = None if query.selects_all else self.query_cache.matching_rows(query, self.matching_rows)
        total, last = len(self) if rows is None else len(rows), query.start + query.count
        sort = self.severity_column if query.sort is None else query.sort
        if not sort:
            page_rows = np.arange(query.start, min(last, total)) if rows is None else rows[query.start : last]
            return Page(page_rows, total)
        order = filter_key(query), sort, query.descending
        first = self.query_cache.first_rows(
            order, min(last, total), lambda limit: self.sort_rows(sort, rows, query.descending, limit)
        )
        return Page(first[query.start : last], total)

    def sort_rows(self, sort: str, rows: Rows | None, descending: bool, first: int) -> Rows:
        """Return the first of ``rows`` (None for all) sorted by a column; the sort is stable and NaN comes last."""
        values = get_column(self.columns, sort)
        if values.dtype.kind not in "fiub":
            values = self.text_cache.ranks(sort, values, descending)
        return _sort_rows(values, rows, descending, first)

    @cached_property
    def query_cache(self) -> _QueryCache:
        """Return the cache of the last query."""
        return _QueryCache()

    @cached_property
    def text_cache(self) -> TextCache:
        """Return the cache of column values as text."""
        return TextCache()

    def matching_rows(self, query: Query) -> Rows:
        """Return all rows that match a query, in table order."""
        matches = matching_mask(self.columns, query, len(self), self.text_cache)
        if query.cells:
            allowed = np.zeros(len(self), bool)
            for cell in query.cells:
                allowed[self.rows_in_cell(*cell)] = True
            matches &= allowed
        if query.rows is not None:
            allowed = np.zeros(len(self), bool)
            allowed[np.asarray(query.rows, np.int64)] = True
            matches &= allowed
        if query.right is not None and self.right is not None:
            matches &= self.right == query.right
        return np.flatnonzero(matches)

    def with_columns(self, new_columns: Mapping[str, Any]) -> Self:
        """Return the table with more columns; raise SetupError for a column of another length."""
        arrays = {name: np.asarray(values) for name, values in new_columns.items()}
        for name, values in arrays.items():
            check_length(f"column {name!r}", len(values), len(self))
        return self.replace(columns={**self.columns, **arrays})

    def replace(self, **changed: Any) -> Self:
        """Return the table with some fields replaced."""
        return replace(self, **changed)

    def take(self, rows: Any) -> Self:
        """Return a table of some of the rows."""
        row_indices = np.asarray(rows)
        arrays = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name not in self.arrays_without_rows
        }
        selected = {name: value[row_indices] for name, value in arrays.items() if isinstance(value, np.ndarray)}
        return self.replace(**selected, columns={name: item[row_indices] for name, item in self.columns.items()})

    def keys(self, rows: Any) -> list[int]:
        """Return the keys of rows: their dataset indices if known, else the row numbers."""
        return [int(key) for key in (rows if self.index is None else self.index[np.asarray(rows, np.int64)])]

    def rows_with_keys(self, keys: Iterable[int]) -> Rows:
        """Return the rows with these keys."""
        index = np.arange(len(self)) if self.index is None else self.index
        return np.flatnonzero(np.isin(index, list(keys)))

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per sample with all columns, indexed by dataset index if known."""
        import pandas as pd

        frame = pd.DataFrame({**self.main_columns(), **self.columns})
        return frame if self.index is None else frame.set_index(pd.Index(self.index, name="index"))

    def main_columns(self) -> dict[str, NDArray[Any]]:
        """Return the first columns of the frame."""
        return {}


def check_length(name: str, length: int, rows: int) -> None:
    """Raise SetupError for a column of another length."""
    if length != rows:
        raise SetupError(f"{name} has {length} rows; expected {rows}, as many as targets. Pass the same rows.")
