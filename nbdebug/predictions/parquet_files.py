"""Parquet files: reading, writing, queries as SQL, and the DuckDB connection."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.labels import check_labels, look_up_labels
from nbdebug.predictions.table import Query, get_column

_MEMORY_LIMIT = "1GB"  # memory limit of DuckDB; beyond it temporary files are used
_METADATA_KEY = "nbdebug"  # the metadata key under which a Parquet file stores the class names
ROW_COLUMN, TARGET_COLUMN, PREDICTION_COLUMN = "nbdebug row", "nbdebug target", "nbdebug prediction"
_ColumnTypes = Mapping[str, np.ndarray]
_CLASS_TYPE = "nbdebug class"
_MAX_ROWS_BY_NUMBER = 10_000  # of more rows, all are read
INDEX_COLUMN = "index"  # the column with the dataset index of a row


def _connect() -> Any:
    """Return a new connection. Raises SetupError if DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        raise SetupError("duckdb is not installed; expected it for Parquet files. Run pip install duckdb.") from None
    connection = duckdb.connect(config={"memory_limit": _MEMORY_LIMIT, "temp_directory": tempfile.gettempdir()})
    connection.execute("SET enable_progress_bar = false")
    return connection


def quote_name(name: str) -> str:
    """Quote a column name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _quote_text(value: object) -> str:
    """Quote a text for SQL."""
    return "'" + str(value).replace("'", "''") + "'"


def _quote_list(values: Sequence[object]) -> str:
    """Quote texts as an SQL list."""
    return "[" + ", ".join(map(_quote_text, values)) + "]"


def _write_query(connection: Any, query: str, path: Path, metadata: dict[str, Any]) -> None:
    """Write the rows of a query as a Parquet file, atomically."""
    final_path, partial_path = Path(path), Path(path).with_name(f".{Path(path).name}.part")
    try:
        connection.execute(
            f"COPY ({query}) TO {_quote_text(partial_path)} (FORMAT parquet, "
            f"KV_METADATA {{{_METADATA_KEY}: {_quote_text(json.dumps(metadata))}}})"
        )
        partial_path.replace(final_path)
    finally:
        partial_path.unlink(missing_ok=True)


def _read_metadata(connection: Any, path: Path) -> dict[str, Any]:
    """Return the metadata of a Parquet file, empty if nbdebug did not write it."""
    cursor = connection.execute(
        f"SELECT value FROM parquet_kv_metadata({_quote_text(path)}) WHERE key = ?", [_METADATA_KEY.encode()]
    )
    row = cursor.fetchone()
    return dict(json.loads(bytes(row[0]))) if row else {}


def where_clause(query: Query, column_types: _ColumnTypes) -> tuple[str, list[Any]]:
    """Return the condition of a query and its parameter values. Raises SetupError for an unknown column.

    ``column_types`` has an array of the right type for each column.
    """
    parts = [
        *(_cell_conditions(query.cells) if query.cells else ()),
        *(
            range_condition
            for name, bounds in query.ranges.items()
            for range_condition in _range_conditions(name, get_column(column_types, name), bounds)
        ),
        *(_value_condition(name, get_column(column_types, name), allowed) for name, allowed in query.values.items()),
    ]
    target, prediction = quote_name(TARGET_COLUMN), quote_name(PREDICTION_COLUMN)
    if query.right is not None:
        parts.append((f"({target} = {prediction} AND {target} >= 0) = ?", [query.right]))
    if query.rows is not None:
        rows = np.asarray(query.rows, np.int64).tolist()
        parts.append((f"{quote_name(ROW_COLUMN)} IN (SELECT unnest(?::BIGINT[]))", [rows]))
    clause = " AND ".join(f"({condition})" for condition, _ in parts)
    return clause or "true", [value for _, values in parts for value in values]


def _cell_conditions(cells: Sequence[tuple[int, int]]) -> list[tuple[str, list[Any]]]:
    cell_condition = f"{quote_name(TARGET_COLUMN)} = ? AND {quote_name(PREDICTION_COLUMN)} = ?"
    return [(" OR ".join([f"({cell_condition})"] * len(cells)), [number for cell in cells for number in cell])]


def _range_conditions(
    name: str, column_type: np.ndarray, bounds: Sequence[float | None]
) -> list[tuple[str, list[Any]]]:
    """Return a condition for values between two bounds; NaN, the highest value in DuckDB, does not match."""
    value = f"{quote_name(name)}::DOUBLE" if column_type.dtype.kind == "b" else quote_name(name)
    conditions = [
        (f"{value} {sign} ?", [bound]) for sign, bound in zip((">=", "<="), bounds, strict=True) if bound is not None
    ]
    if conditions and column_type.dtype.kind == "f":
        conditions.append((f"NOT isnan({value})", []))
    return conditions


def _value_condition(name: str, column_type: np.ndarray, allowed: Sequence[str]) -> tuple[str, list[Any]]:
    """Return a condition for values among some texts; numbers are compared as numbers."""
    value = quote_name(name)
    if column_type.dtype.kind in "fiu":
        return f"coalesce({value} IN (SELECT unnest(?::DOUBLE[])), false)", [_parse_numbers(allowed)]
    if column_type.dtype.kind == "b":
        value = f"CASE WHEN {value} THEN 'True' WHEN NOT {value} THEN 'False' END"
    return f"coalesce({value}::VARCHAR, 'None') IN (SELECT unnest(?::VARCHAR[]))", [list(map(str, allowed))]


def _parse_numbers(texts: Sequence[str]) -> list[float]:
    values = list[float]()
    for text in texts:
        with suppress(ValueError):
            values.append(float(text))
    return values


def order_clause(sort: str, column_types: _ColumnTypes, descending: bool) -> str:
    """Return the order of a query: by a column or in table order; NaN and missing values come last."""
    if not sort:
        return quote_name(ROW_COLUMN)
    type_code, value = get_column(column_types, sort).dtype.kind, quote_name(sort)
    if type_code == "f":
        value = f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"
    return f"{value} {'DESC' if descending else 'ASC'} NULLS LAST, {quote_name(ROW_COLUMN)}"


class ParquetFiles:
    """Parquet files with the same columns, one after the other; row numbers continue through all of them.

    The SQL view ``rows`` has all rows with their columns, and their numbers, targets and predictions under names
    reserved by nbdebug. Raises SetupError for missing files, missing columns, and class names that do not match.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        target: str = "target",
        prediction: str = "prediction",
        class_names: Sequence[str] | None = None,
    ) -> None:
        self.connection, self.paths = _connect(), tuple(paths)
        self.label_columns = target, prediction
        self.metadata = [_read_metadata(self.connection, file_path) for file_path in self.paths]
        self.column_types = self.read_column_types(self.paths[0])
        for path in self.paths:
            self.check_columns(path)
        self.classes = self.resolve_class_names(
            class_names if class_names is not None else _shared_class_names(self.paths, self.metadata)
        )
        self.count = sum(self.counts)
        self.create_view()

    @cached_property
    def counts(self) -> list[int]:
        """Return the number of rows of each file."""
        statement = "SELECT num_rows FROM parquet_file_metadata({})"
        return [int(self.fetch_rows(statement.format(_quote_text(path)))[0][0]) for path in self.paths]

    def fetch_rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return list(self.connection.execute(query, list(values)).fetchall())

    def fetch_arrays(self, query: str, values: Sequence[Any] = ()) -> dict[str, np.ndarray]:
        """Return the columns of a query; integers without missing values stay integers."""
        columns = self.connection.execute(query, list(values)).fetchnumpy()
        return {name: _fill_missing(column) for name, column in columns.items()}

    def read_column_types(self, path: Path) -> dict[str, np.ndarray]:
        """Return the columns of a file as empty arrays of the right type."""
        return self.fetch_arrays(f"SELECT * FROM read_parquet({_quote_text(path)}) LIMIT 0")

    def check_columns(self, path: Path) -> None:
        """Raise SetupError for a file without a label column, or with other columns than the first file."""
        column_types = self.read_column_types(path)
        for name in self.label_columns:
            if name not in column_types:
                raise SetupError(
                    f"column is {name!r}; expected one of {', '.join(column_types)}. Pass one of {path.name}."
                )
        if [*column_types] != [*self.column_types]:
            raise SetupError(
                f"{path.name} has the columns {', '.join(column_types)}; expected {', '.join(self.column_types)}, as "
                f"{self.paths[0].name} has. Write all files with the same columns."
            )

    def resolve_class_names(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the class names: by default the sorted labels, or the indices up to the highest label."""
        source = f"read_parquet([{', '.join(map(_quote_text, self.paths))}])"
        columns = [quote_name(name) for name in self.label_columns]
        if self.has_integer_labels:
            maxima = ", ".join(f"coalesce(max({self.class_index_sql(column)}), -1)" for column in self.label_columns)
            (highest,) = self.fetch_rows(f"SELECT {maxima} FROM {source}")
            return check_labels(np.array(highest, np.int32), None, names, None)[2]
        selections = [f"SELECT DISTINCT {column}::VARCHAR AS label FROM {source}" for column in columns]
        distinct_labels = self.fetch_rows(
            f"SELECT label FROM ({' UNION '.join(selections)}) WHERE label IS NOT NULL ORDER BY label"
        )
        if names is None:
            return tuple(label for (label,) in distinct_labels)
        look_up_labels(np.array([label for (label,) in distinct_labels], str), names)
        return tuple(names)

    @property
    def has_integer_labels(self) -> bool:
        """Return whether the labels are class indices, not texts."""
        return all(self.column_types[name].dtype.kind in "iubf" for name in self.label_columns)

    def create_view(self, source: str = "") -> None:
        """Create the view ``rows``; ``source`` is SQL that restricts it."""
        if not self.has_integer_labels:
            names = ", ".join(map(_quote_text, self.classes))
            self.connection.execute(f"CREATE TYPE IF NOT EXISTS {quote_name(_CLASS_TYPE)} AS ENUM ({names})")
        starts = [0, *accumulate(self.counts)]
        labels = [
            f"{self.class_index_sql(column)} AS {quote_name(alias)}"
            for column, alias in zip(self.label_columns, (TARGET_COLUMN, PREDICTION_COLUMN), strict=True)
        ]
        self._parts = [
            f"SELECT * EXCLUDE file_row_number, file_row_number + {start} AS {quote_name(ROW_COLUMN)}, "
            f"{', '.join(labels)} FROM read_parquet({_quote_text(path)}, file_row_number = true)"
            for path, start in zip(self.paths, starts, strict=False)
        ]
        self._source = source
        self.connection.execute(f"CREATE OR REPLACE VIEW rows AS {self._union(self._parts)}")

    def _union(self, parts: Sequence[str]) -> str:
        return f"SELECT * FROM ({' UNION ALL '.join(parts)}) {self._source}"

    def select_rows(self, rows: NDArray[np.int64]) -> str:
        """Return SQL for rows with these numbers, in any order; it reads little of the files if there are few.

        DuckDB compares numbers within a file with those of its row groups; a condition on the view reads all of them.
        """
        if not 0 < len(rows) <= _MAX_ROWS_BY_NUMBER:
            return "FROM rows"
        parts = list[str]()
        for part, start, count in zip(self._parts, accumulate(self.counts, initial=0), self.counts, strict=False):
            own = rows[(rows >= start) & (rows < start + count)] - start
            if len(own):
                parts.append(f"{part} WHERE file_row_number IN ({', '.join(map(str, own.tolist()))})")
        return self._union(parts) if parts else "FROM rows"

    def drop_rows(self, selection: str) -> int:
        """Leave out the rows whose numbers SQL selects; return how many these are."""
        self.connection.execute(f"CREATE OR REPLACE TABLE dropped AS {selection}")
        count = int(self.fetch_rows("SELECT count(*) FROM dropped")[0][0])
        if count:
            self.create_view(f"WHERE {quote_name(ROW_COLUMN)} NOT IN (FROM dropped)")
            self.count = sum(self.counts) - count
        return count

    def class_index_sql(self, name: str) -> str:
        """Return SQL for the class index of a label, -1 for none."""
        type_code, value = self.column_types[name].dtype.kind, quote_name(name)
        if not self.has_integer_labels:
            return f"coalesce(enum_code({value}::VARCHAR::{quote_name(_CLASS_TYPE)})::INTEGER, -1)"
        if type_code == "f":
            value = f"CASE WHEN isnan({value}) THEN -1 ELSE {value} END"
        return f"coalesce({value}::INTEGER, -1)"


def _shared_class_names(paths: Sequence[Path], metadata: Sequence[dict[str, Any]]) -> Sequence[str] | None:
    """Return the class names of the files, the longest if they are indices; raise SetupError if they differ."""
    names = [list[str](class_names["classes"]) for class_names in metadata if "classes" in class_names]
    longest = max(names, key=len, default=[])
    numbers = [str(number) for number in range(len(longest))]
    for path, class_names in zip(paths, names, strict=False):
        if class_names != (longest[: len(class_names)] if longest == numbers else longest):
            raise SetupError(
                f"{path.name} has the classes {', '.join(class_names[:9])}; expected {', '.join(longest[:9])}, as "
                "other files. Pass the same class_names for all parts."
            )
    return longest or None


def list_parquet_files(path: str | Path) -> list[Path]:
    """Return the Parquet files at a path, a file or a folder; raise SetupError if there are none."""
    location = Path(path).expanduser()
    files = sorted(location.glob("*.parquet")) if location.is_dir() else [location] * location.is_file()
    if not files:
        raise SetupError(f"predictions is {str(path)!r}; expected a Parquet file or a folder of them. Check the path.")
    return files


def _fill_missing(values: Any) -> np.ndarray:
    """Return an array with NaN, NaT or None for missing values."""
    missing = np.ma.getmaskarray(values)
    if not missing.any():
        return np.asarray(values)
    missing_value = {"i": np.nan, "u": np.nan, "f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
    filled = np.array(values, float if values.dtype.kind in "iu" else object if missing_value is None else values.dtype)
    filled[missing] = missing_value
    return filled


def top_column_names(count: int) -> tuple[list[str], list[str]]:
    """Return the column names of the most probable classes and of their probabilities."""
    ranks = range(1, count + 1)
    return [f"top {rank}" for rank in ranks], [f"chance {rank}" for rank in ranks]


class _WritableTable(Protocol):
    """The fields of a classification table that are written."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def target(self) -> NDArray[Any]: ...

    @property
    def prediction(self) -> NDArray[Any]: ...

    @property
    def index(self) -> NDArray[Any] | None: ...

    @property
    def columns(self) -> dict[str, NDArray[Any]]: ...

    @property
    def top(self) -> NDArray[Any] | None: ...

    @property
    def chances(self) -> NDArray[Any] | None: ...

    @property
    def notes(self) -> tuple[str, ...]: ...


def write_parquet(table: _WritableTable, path: str | Path) -> None:
    """Write the columns of a table, its most probable classes and the class names; no scores and no embedding.

    The file is written atomically. Raises SetupError for columns with reserved names.
    """
    import pandas as pd

    columns = _table_columns(table)
    if conflicting := [name for name in table.columns if name in columns]:
        raise SetupError(
            f"column is {conflicting[0]!r}; expected a name that the table does not use itself. Rename it."
        )
    connection = _connect()
    connection.register("table_rows", pd.DataFrame({**columns, **table.columns}))
    top = 0 if table.top is None else table.top.shape[1]
    metadata = {"classes": list(table.classes), "notes": list(table.notes), "top": top}
    names = ", ".join(map(quote_name, [*columns, *table.columns]))
    _write_query(connection, f"SELECT {names} FROM table_rows", Path(path).expanduser(), metadata)


def _table_columns(table: _WritableTable) -> dict[str, Any]:
    """Return the columns that every table has in a file."""
    columns: dict[str, Any] = {} if table.index is None else {INDEX_COLUMN: table.index}
    columns |= {"target": table.target, "prediction": table.prediction}
    if table.top is not None and table.chances is not None:
        class_columns, probability_columns = top_column_names(table.top.shape[1])
        columns |= dict(zip(class_columns, table.top.T, strict=True))
        columns |= dict(zip(probability_columns, table.chances.T, strict=True))
    return columns
