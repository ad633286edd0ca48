"""A prediction table on disk, queried with DuckDB."""

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
from nbdebug.metrics.classification import Counts
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.parquet_files import (
    INDEX_COLUMN,
    PREDICTION_COLUMN,
    ROW_COLUMN,
    TARGET_COLUMN,
    ParquetFiles,
    list_parquet_files,
    order_clause,
    quote_name,
    top_column_names,
    where_clause,
)
from nbdebug.predictions.table import Grid, Page, PredictionTable, Query, Rows, describe_accuracy, filter_key

if TYPE_CHECKING:
    import pandas

MAX_ROWS_IN_MEMORY = 5_000_000  # up to this many rows a table is read into memory, so that every panel can use it


@dataclass(frozen=True, kw_only=True)
class ParquetTable(PredictionTable):
    """The predicted class of each sample, on disk. A query is one pass over the columns that it needs.

    ``row_counts`` caches the number of rows of queries, ``last_page`` the rows of the last page, which are usually
    requested next. ``columns`` and ``right`` only have names and types: their arrays are empty. Analyses that need the
    values of many rows use a ``sample``.
    """

    task: ClassVar[str] = "classification"
    in_memory: ClassVar[bool] = False

    files: ParquetFiles = field(repr=False)
    row_counts: dict[Any, int] = field(default_factory=dict, repr=False)
    last_page: list[Any] = field(default_factory=list, repr=False)

    @classmethod
    def open(
        cls,
        path: str | Path | Sequence[Path],
        target: str = "target",
        prediction: str = "prediction",
        class_names: Sequence[str] | None = None,
    ) -> ParquetTable:
        """Return the table of a Parquet file or folder, given the columns of the labels.

        Raises SetupError for a path without files, an unknown column, and names that do not match.
        """
        paths = list_parquet_files(path) if isinstance(path, str | Path) else path
        files = ParquetFiles(paths, target, prediction, class_names)
        reserved_columns = {*files.label_columns, INDEX_COLUMN, *chain(*_top_columns(files))}
        notes = tuple(dict.fromkeys(note for metadata in files.metadata for note in metadata.get("notes", ())))
        columns = {
            name: column_type for name, column_type in files.column_types.items() if name not in reserved_columns
        }
        return cls(files=files, columns=columns, notes=notes)

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        return self.files.classes

    def __len__(self) -> int:
        return self.files.count

    @property
    def right(self) -> NDArray[np.bool_]:
        """Return an empty array, as rows can be correct or wrong."""
        return np.empty(0, np.bool_)

    @cached_property
    def matrix(self) -> Counts:
        """Return the confusion matrix, targets × predictions, in one pass."""
        label_columns, size = f"{quote_name(TARGET_COLUMN)}, {quote_name(PREDICTION_COLUMN)}", len(self.classes)
        cell_counts = self.files.fetch_rows(
            f"SELECT {label_columns}, count(*) FROM rows WHERE least({label_columns}) >= 0 GROUP BY {label_columns}"
        )
        counts = np.zeros((size, size), np.int64)
        for target, prediction, count in cell_counts:
            counts[target, prediction] = count
        return counts

    @cached_property
    def grid(self) -> Grid:
        """Return the confusion matrix with names."""
        return Grid(self.matrix, self.classes, self.classes)

    def page(self, query: Query) -> Page:
        """Return the requested rows. Raises SetupError for an unknown column."""
        condition, values = where_clause(query, self.columns)
        sort = order_clause(self.severity_column if query.sort is None else query.sort, self.columns, query.descending)
        page = f"LIMIT {int(query.count)} OFFSET {int(query.start)}"
        # The first pass reads the columns of the query only, and the second one a few rows with all columns.
        row = quote_name(ROW_COLUMN)
        arrays = self.files.fetch_arrays(f"SELECT {row} FROM rows WHERE {condition} ORDER BY {sort} {page}", values)
        rows = arrays[ROW_COLUMN].astype(np.int64)
        self.last_page[:] = rows, self.take(rows)
        return Page(rows, self.total(query))

    def total(self, query: Query) -> int:
        """Return the number of rows of a query, from the confusion matrix if possible, else counted once."""
        needs_count = (
            query.ranges or query.values or query.rows is not None or (query.cells and query.right is not None)
        )
        if needs_count:
            key = filter_key(query)
            if key not in self.row_counts:
                condition, values = where_clause(query, self.columns)
                self.row_counts[key] = int(
                    self.files.fetch_rows(f"SELECT count(*) FROM rows WHERE {condition}", values)[0][0]
                )
            return self.row_counts[key]
        if query.cells:
            return int(sum(self.matrix[cell] for cell in {*query.cells}))
        n_correct = int(np.trace(self.matrix))
        return len(self) if query.right is None else n_correct if query.right else len(self) - n_correct

    def matching_rows(self, query: Query) -> Rows:
        """Return all rows that match a query, in table order, with eight bytes each."""
        condition, values = where_clause(query, self.columns)
        row = quote_name(ROW_COLUMN)
        return self.files.fetch_arrays(f"SELECT {row} FROM rows WHERE {condition} ORDER BY {row}", values)[
            ROW_COLUMN
        ].astype(np.int64)

    def headline(self) -> str:
        """Return the accuracy in one line."""
        return describe_accuracy(self.matrix, len(self))

    def rows_in_cell(self, row: int, column: int) -> Rows:
        """Return the rows with this target and this prediction."""
        return self.matching_rows(Query(cells=((row, column),)))

    def keys(self, rows: Any) -> list[int]:
        """Return the keys of rows: their dataset indices if the file has them, else the row numbers."""
        return self.take(rows).keys(range(len(rows))) if INDEX_COLUMN in self.files.column_types else super().keys(rows)

    def rows_with_keys(self, keys: Iterable[int]) -> Rows:
        """Return the rows with these keys."""
        name = INDEX_COLUMN if INDEX_COLUMN in self.files.column_types else ROW_COLUMN
        statement = (
            f"SELECT {quote_name(ROW_COLUMN)} FROM rows WHERE {quote_name(name)} IN (SELECT unnest(?::BIGINT[])) ORDER "
            "BY 1"
        )
        return np.array([row for (row,) in self.files.fetch_rows(statement, [list(keys)])], np.int64)

    def describe_row(self, row: int) -> dict[str, str]:
        """Return the target class and the predicted class."""
        return self.take([row]).describe_row(0)

    def take(self, rows: Any) -> ClassificationTable:  # type: ignore[override]
        """Return some rows in memory, in the requested order; rows that were dropped are left out."""
        import pandas as pd

        row_numbers = np.asarray(rows, np.int64)
        if self.last_page and np.array_equal(self.last_page[0], row_numbers):
            last_table: ClassificationTable = self.last_page[1]
            return last_table
        self.files.connection.register(
            "wanted", pd.DataFrame({"row": row_numbers, "position": np.arange(len(row_numbers))})
        )
        return self.fetch_table(
            f"FROM ({self.files.select_rows(row_numbers)}) AS rows JOIN wanted "
            f"ON rows.{quote_name(ROW_COLUMN)} = wanted.row ORDER BY wanted.position"
        )[1]

    def sample(self, count: int, seed: int = 0) -> ClassificationTable:
        """Return ``count`` random rows in table order, all if there are fewer."""
        if count >= len(self):
            return self.load()
        rows = np.random.default_rng(seed).choice(sum(self.files.counts), count, replace=False)
        table = self.take(np.sort(rows))
        return table.replace(notes=(*table.notes, f"these are {len(table)} of {len(self)} rows, drawn at random"))

    def load(self) -> ClassificationTable:
        """Return all rows in memory."""
        return self.fetch_table("FROM rows")[1]

    def fetch_table(self, source: str, values: Sequence[Any] = ()) -> tuple[Rows, ClassificationTable]:
        """Return the rows that SQL selects, and their table in memory."""
        arrays = self.files.fetch_arrays(f"SELECT rows.* {source}", values)
        class_columns, probability_columns = _top_columns(self.files)
        return arrays[ROW_COLUMN].astype(np.int64), ClassificationTable(
            target=arrays[TARGET_COLUMN].astype(np.int32, copy=False),
            prediction=arrays[PREDICTION_COLUMN].astype(np.int32, copy=False),
            classes=self.classes,
            index=arrays[INDEX_COLUMN].astype(np.int64, copy=False) if INDEX_COLUMN in arrays else None,
            columns={name: arrays[name] for name in self.columns},
            top=np.stack([arrays[name] for name in class_columns], 1).astype(np.int32) if class_columns else None,
            chances=np.stack([arrays[name] for name in probability_columns], 1).astype(np.float32)
            if class_columns
            else None,
            notes=self.notes,
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per sample with all columns. Raises SetupError for too many rows for memory."""
        if len(self) > MAX_ROWS_IN_MEMORY:
            raise SetupError(
                f"the table has {len(self)} rows; expected at most {MAX_ROWS_IN_MEMORY} in a frame. "
                "Call rows(...) instead."
            )
        return self.load().to_frame()


def _top_columns(files: ParquetFiles) -> tuple[list[str], list[str]]:
    """Return the columns of the most probable classes and of their probabilities, if nbdebug wrote them."""
    count = int(files.metadata[0].get("top", 0))
    return top_column_names(count)
