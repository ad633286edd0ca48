"""A prediction table that stays on disk: Parquet files that DuckDB reads, however many rows they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.confusion import Counts
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.disk.duck import quoted
from nbdebug.predictions.disk.files import INDEX, Files, found_at
from nbdebug.predictions.disk.sql import PREDICTION, ROW, TARGET, order, where
from nbdebug.predictions.grid import Grid, accuracy_line
from nbdebug.predictions.query import Page, Query, Rows
from nbdebug.predictions.recent import filter_of
from nbdebug.predictions.table import Table

if TYPE_CHECKING:
    import pandas

MOST_IN_MEMORY = 5_000_000  # rows: up to here a table is read as a whole, for then each panel can look at it


@dataclass(frozen=True, kw_only=True)
class Stored(Table):
    """What was said of the class of each sample, on disk. A question is one pass over the columns that it needs.

    ``known`` has the number of rows of queries, ``last`` the rows of the last page, which are mostly taken next.
    ``columns`` and ``right`` tell names and types only: their arrays are empty. What needs the values of many rows
    takes a ``sample``.
    """

    task: ClassVar[str] = "classification"
    in_memory: ClassVar[bool] = False

    files: Files = field(repr=False)
    known: dict[Any, int] = field(default_factory=dict, repr=False)
    last: list[Any] = field(default_factory=list, repr=False)

    @classmethod
    def at(
        cls,
        path: str | Path | Sequence[Path],
        target: str = "target",
        prediction: str = "prediction",
        class_names: Sequence[str] | None = None,
    ) -> Stored:
        """The table of a Parquet file, or of all in a folder, with the columns that hold the labels.

        Raises SetupError for a path without files, for a column that is not there, for names that do not fit.
        """
        paths = found_at(path) if isinstance(path, str | Path) else path
        files = Files(paths, target, prediction, class_names)
        own = {*files.labels, INDEX, *chain(*parts_of_top(files))}
        notes = tuple(dict.fromkeys(note for said in files.said for note in said.get("notes", ())))
        columns = {name: kind for name, kind in files.kinds.items() if name not in own}
        return cls(files=files, columns=columns, notes=notes)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.files.classes

    def __len__(self) -> int:
        """The number of rows."""
        return self.files.count

    @property
    def right(self) -> NDArray[np.bool_]:
        """That rows can be right or wrong; the array is empty."""
        return np.empty(0, np.bool_)

    @cached_property
    def matrix(self) -> Counts:
        """The confusion matrix, targets × predictions, in one pass."""
        both, size = f"{quoted(TARGET)}, {quoted(PREDICTION)}", len(self.classes)
        found = self.files.asked(f"SELECT {both}, count(*) FROM rows WHERE least({both}) >= 0 GROUP BY {both}")
        counts = np.zeros((size, size), np.int64)
        for target, prediction, count in found:
            counts[target, prediction] = count
        return counts

    @cached_property
    def grid(self) -> Grid:
        """The confusion matrix with its names."""
        return Grid(self.matrix, self.classes, self.classes)

    def page(self, query: Query) -> Page:
        """The rows that are asked for. Raises SetupError for a column that there is not."""
        condition, values = where(query, self.columns)
        sort = order(self.worst if query.sort is None else query.sort, self.columns, query.descending)
        page = f"LIMIT {int(query.count)} OFFSET {int(query.start)}"
        self.last[:] = self.loaded(f"FROM rows WHERE {condition} ORDER BY {sort} {page}", values)
        return Page(self.last[0], self.total(query))

    def total(self, query: Query) -> int:
        """How many rows a query has: by the matrix where that tells it, else counted once."""
        counted = query.ranges or query.values or query.rows is not None or (query.cells and query.right is not None)
        if counted:
            wanted = filter_of(query)
            if wanted not in self.known:
                condition, values = where(query, self.columns)
                self.known[wanted] = int(self.files.asked(f"SELECT count(*) FROM rows WHERE {condition}", values)[0][0])
            return self.known[wanted]
        if query.cells:
            return int(sum(self.matrix[cell] for cell in {*query.cells}))
        right = int(np.trace(self.matrix))
        return len(self) if query.right is None else right if query.right else len(self) - right

    def found(self, query: Query) -> Rows:
        """All rows that are asked for, in the order of the table: eight bytes each."""
        condition, values = where(query, self.columns)
        row = quoted(ROW)
        return self.files.arrays(f"SELECT {row} FROM rows WHERE {condition} ORDER BY {row}", values)[ROW].astype(
            np.int64
        )

    def headline(self) -> str:
        """The accuracy in a line."""
        return accuracy_line(self.matrix, len(self))

    def in_cell(self, row: int, column: int) -> Rows:
        """The rows with this target and this prediction."""
        return self.found(Query(cells=((row, column),)))

    def keys(self, rows: Any) -> list[int]:
        """By what rows are known: their places in the data set, where the file tells them, else themselves."""
        return self.take(rows).keys(range(len(rows))) if INDEX in self.files.kinds else super().keys(rows)

    def rows_of(self, keys: Iterable[int]) -> Rows:
        """The rows of samples."""
        name = INDEX if INDEX in self.files.kinds else ROW
        ask = f"SELECT {quoted(ROW)} FROM rows WHERE {quoted(name)} IN (SELECT unnest(?::BIGINT[])) ORDER BY 1"
        return np.array([row for (row,) in self.files.asked(ask, [list(keys)])], np.int64)

    def said(self, row: int) -> dict[str, str]:
        """The class, and what it was taken for."""
        return self.take([row]).said(0)

    def take(self, rows: Any) -> Predictions:  # type: ignore[override]
        """Some of the rows, in memory and in the order that is asked for; rows that were left out are not there."""
        import pandas as pd

        at = np.asarray(rows, np.int64)
        if self.last and np.array_equal(self.last[0], at):
            last: Predictions = self.last[1]
            return last
        self.files.connection.register("wanted", pd.DataFrame({"row": at, "place": np.arange(len(at))}))
        return self.loaded(f"FROM rows JOIN wanted ON rows.{quoted(ROW)} = wanted.row ORDER BY wanted.place")[1]

    def sample(self, most: int, seed: int = 0) -> Predictions:
        """So many rows at random in their order, all where there are fewer; what a panel may look at."""
        if most >= len(self):
            return self.load()
        rows = np.random.default_rng(seed).choice(sum(self.files.counts), most, replace=False)
        found = self.take(np.sort(rows))
        return found.replaced(notes=(*found.notes, f"these are {len(found)} of {len(self)} rows, drawn at random"))

    def load(self) -> Predictions:
        """All rows, in memory."""
        return self.loaded("FROM rows")[1]

    def loaded(self, source: str, values: Sequence[Any] = ()) -> tuple[Rows, Predictions]:
        """The rows that SQL gives, and what is said of them, in memory."""
        found = self.files.arrays(f"SELECT rows.* {source}", values)
        top, chances = parts_of_top(self.files)
        return found[ROW].astype(np.int64), Predictions(
            target=found[TARGET].astype(np.int32, copy=False),
            prediction=found[PREDICTION].astype(np.int32, copy=False),
            classes=self.classes,
            index=found[INDEX].astype(np.int64, copy=False) if INDEX in found else None,
            columns={name: found[name] for name in self.columns},
            top=np.stack([found[name] for name in top], 1).astype(np.int32) if top else None,
            chances=np.stack([found[name] for name in chances], 1).astype(np.float32) if top else None,
            notes=self.notes,
        )

    def to_frame(self) -> pandas.DataFrame:
        """One row a sample with all columns. Raises SetupError for more rows than memory is made for."""
        if len(self) > MOST_IN_MEMORY:
            raise SetupError(
                f"the table has {len(self)} rows; expected at most {MOST_IN_MEMORY} in a frame. Take rows(...) of it."
            )
        return self.load().to_frame()


def parts_of_top(files: Files) -> tuple[list[str], list[str]]:
    """The columns with the likeliest classes and with their probabilities, where nbdebug wrote them."""
    count = int(files.said[0].get("top", 0))
    return top_names(count)


def top_names(count: int) -> tuple[list[str], list[str]]:
    """What the columns with the likeliest classes and their probabilities are called in a file."""
    places = range(1, count + 1)
    return [f"top {place}" for place in places], [f"chance {place}" for place in places]
