"""The prediction table: a row for each sample, a column for each thing that is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.grid import Grid
from nbdebug.predictions.query import Page, Query, Rows, column, fitting, in_order
from nbdebug.predictions.recent import Recent, filter_of
from nbdebug.predictions.texts import Texts

if TYPE_CHECKING:
    import pandas
    from typing_extensions import Self

WORST = ("loss", "confidence")


@dataclass(frozen=True, kw_only=True)
class Table:
    """What was said of each sample; all columns have the same length. A subclass stands for one task.

    ``in_memory`` says whether the values of the rows are at hand, as analyses of them all need it. ``index`` is the
    place of a row in its data set, where known. ``columns`` are what rows are sorted and filtered by: loss,
    confidence and the like, and whatever was given with them. ``embedding`` is rows × features, where asked for.
    """

    task: ClassVar[str] = ""
    in_memory: ClassVar[bool] = True
    apart: ClassVar[tuple[str, ...]] = ()  # arrays that have no row a sample

    index: NDArray[np.int64] | None = None
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    embedding: NDArray[np.float32] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """The number of rows."""
        raise NotImplementedError

    @property
    def right(self) -> NDArray[np.bool_] | None:
        """Which rows are right; None where that is no question, as of real numbers."""
        return None

    @cached_property
    def grid(self) -> Grid | None:
        """The overview in cells; None where there is none."""
        return None

    def in_cell(self, row: int, column: int) -> Rows:
        """The rows of the table behind one cell of the grid, in their order."""
        raise SetupError(f"cell is ({row}, {column}); expected a table with a grid. Ask by columns.")

    def said(self, row: int) -> dict[str, str]:
        """What is written under a sample: what it is, what it was taken for."""
        raise NotImplementedError

    def headline(self) -> str:
        """The result in a line."""
        return f"{len(self)} samples"

    @property
    def worst(self) -> str:
        """The column that says how bad a row is, "" without one."""
        return next((name for name in WORST if name in self.columns), "")

    def page(self, query: Query) -> Page:
        """The rows that are asked for. Raises SetupError for a column that there is not."""
        rows = None if query.is_everything else self.recent.found(query, self.found)
        total, last = len(self) if rows is None else len(rows), query.start + query.count
        sort = self.worst if query.sort is None else query.sort
        if not sort:
            some = np.arange(query.start, min(last, total)) if rows is None else rows[query.start : last]
            return Page(some, total)
        order = filter_of(query), sort, query.descending
        first = self.recent.first(
            order, min(last, total), lambda most: self.in_order(sort, rows, query.descending, most)
        )
        return Page(first[query.start : last], total)

    def in_order(self, sort: str, rows: Rows | None, descending: bool, first: int) -> Rows:
        """The first of ``rows``, None for all, by a column, equal ones as they stand; what is NaN comes last."""
        values = column(self.columns, sort)
        if values.dtype.kind not in "fiub":
            values = self.texts.ranks(sort, values, descending)
        return in_order(values, rows, descending, first)

    @cached_property
    def recent(self) -> Recent:
        """What was found last, for the next page of it."""
        return Recent()

    @cached_property
    def texts(self) -> Texts:
        """What the values of columns are as text."""
        return Texts()

    def found(self, query: Query) -> Rows:
        """All rows that are asked for, in the order of the table."""
        fits = fitting(self.columns, query, len(self), self.texts)
        if query.cells:
            among = np.zeros(len(self), bool)
            for cell in query.cells:
                among[self.in_cell(*cell)] = True
            fits &= among
        if query.rows is not None:
            among = np.zeros(len(self), bool)
            among[np.asarray(query.rows, np.int64)] = True
            fits &= among
        if query.right is not None and self.right is not None:
            fits &= self.right == query.right
        return np.flatnonzero(fits)

    def with_columns(self, more: Mapping[str, Any]) -> Self:
        """The same with more columns; raises SetupError for one of another length."""
        found = {name: np.asarray(values) for name, values in more.items()}
        for name, values in found.items():
            fits(f"column {name!r}", len(values), len(self))
        return self.replaced(columns={**self.columns, **found})

    def replaced(self, **changed: Any) -> Self:
        """The same with other columns."""
        return replace(self, **changed)

    def take(self, rows: Any) -> Self:
        """Some of the rows."""
        at = np.asarray(rows)
        arrays = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in self.apart}
        kept = {name: value[at] for name, value in arrays.items() if isinstance(value, np.ndarray)}
        return self.replaced(**kept, columns={name: one[at] for name, one in self.columns.items()})

    def keys(self, rows: Any) -> list[int]:
        """By what rows are known: their places in the data set, where known, else themselves."""
        return [int(one) for one in (rows if self.index is None else self.index[np.asarray(rows, np.int64)])]

    def rows_of(self, keys: Iterable[int]) -> Rows:
        """The rows of samples that are known so."""
        index = np.arange(len(self)) if self.index is None else self.index
        return np.flatnonzero(np.isin(index, list(keys)))

    def to_frame(self) -> pandas.DataFrame:
        """One row a sample with all columns; the index is the place in the data set, where known."""
        import pandas as pd

        frame = pd.DataFrame({**self.main(), **self.columns})
        return frame if self.index is None else frame.set_index(pd.Index(self.index, name="index"))

    def main(self) -> dict[str, NDArray[Any]]:
        """The columns that a frame begins with."""
        return {}


def fits(name: str, length: int, rows: int) -> None:
    """Refuses a column of another length."""
    if length != rows:
        raise SetupError(f"{name} has {length} rows; expected {rows}, as many as targets. Pass the same rows.")
