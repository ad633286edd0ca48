"""Parquet files as the rows of one table: which columns they have, and which classes their labels stand for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.predictions.disk.duck import connected, quoted, said_in, text
from nbdebug.predictions.disk.sql import PREDICTION, ROW, TARGET
from nbdebug.predictions.labels import checked, looked_up

CLASS = "nbdebug class"
INDEX = "index"  # the column with the place of a row in its data set


class Files:
    """Parquet files with the same columns, one below the other; a row's number counts through all of them.

    ``rows`` in SQL are all of them with their columns, and with their numbers, targets and predictions under names of
    nbdebug's own. Raises SetupError for files that are not there, for columns that they have not, and for class names
    that do not fit.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        target: str = "target",
        prediction: str = "prediction",
        class_names: Sequence[str] | None = None,
    ) -> None:
        self.connection, self.paths = connected(), tuple(paths)
        self.labels = target, prediction
        self.said = [said_in(self.connection, one) for one in self.paths]
        self.kinds = self.kinds_of(self.paths[0])
        for path in self.paths:
            self.refuse(path)
        self.classes = self.named(class_names if class_names is not None else agreed(self.paths, self.said))
        self.count = sum(self.counts)
        self.show()

    @cached_property
    def counts(self) -> list[int]:
        """How many rows each file has."""
        ask = "SELECT num_rows FROM parquet_file_metadata({})"
        return [int(self.asked(ask.format(text(path)))[0][0]) for path in self.paths]

    def asked(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query gives."""
        return list(self.connection.execute(query, list(values)).fetchall())

    def arrays(self, query: str, values: Sequence[Any] = ()) -> dict[str, np.ndarray]:
        """The columns that a query gives; whole numbers with none missing stay whole."""
        found = self.connection.execute(query, list(values)).fetchnumpy()
        return {name: without_mask(one) for name, one in found.items()}

    def kinds_of(self, path: Path) -> dict[str, np.ndarray]:
        """The columns of a file as empty arrays of the right type."""
        return self.arrays(f"SELECT * FROM read_parquet({text(path)}) LIMIT 0")

    def refuse(self, path: Path) -> None:
        """Refuses a file that lacks a column of labels, or has other columns than the first."""
        kinds = self.kinds_of(path)
        for name in self.labels:
            if name not in kinds:
                raise SetupError(f"column is {name!r}; expected one of {', '.join(kinds)}. Name that of {path.name}.")
        if [*kinds] != [*self.kinds]:
            raise SetupError(
                f"{path.name} has the columns {', '.join(kinds)}; expected {', '.join(self.kinds)}, as "
                f"{self.paths[0].name} has. Write all files alike."
            )

    def named(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """The names of the classes; without any those of the labels, sorted, or the numbers up to the highest."""
        source = f"read_parquet([{', '.join(map(text, self.paths))}])"
        columns = [quoted(name) for name in self.labels]
        if self.are_numbers:
            tops = ", ".join(f"coalesce(max({self.number(one)}), -1)" for one in self.labels)
            (highest,) = self.asked(f"SELECT {tops} FROM {source}")
            return checked(np.array(highest, np.int32), None, names, None)[2]
        texts = [f"SELECT DISTINCT {one}::VARCHAR AS label FROM {source}" for one in columns]
        found = self.asked(f"SELECT label FROM ({' UNION '.join(texts)}) WHERE label IS NOT NULL ORDER BY label")
        if names is None:
            return tuple(label for (label,) in found)
        looked_up(np.array([label for (label,) in found], str), names)
        return tuple(names)

    @property
    def are_numbers(self) -> bool:
        """Whether the labels are numbers of classes, not texts."""
        return all(self.kinds[name].dtype.kind in "iubf" for name in self.labels)

    def show(self, source: str = "") -> None:
        """Makes ``rows`` of the files; ``source`` is SQL that restricts them."""
        if not self.are_numbers:
            names = ", ".join(map(text, self.classes))
            self.connection.execute(f"CREATE TYPE IF NOT EXISTS {quoted(CLASS)} AS ENUM ({names})")
        starts = [0, *accumulate(self.counts)]
        labels = [
            f"{self.number(one)} AS {quoted(to)}" for one, to in zip(self.labels, (TARGET, PREDICTION), strict=True)
        ]
        parts = [
            f"SELECT * EXCLUDE file_row_number, file_row_number + {start} AS {quoted(ROW)}, {', '.join(labels)} "
            f"FROM read_parquet({text(path)}, file_row_number = true)"
            for path, start in zip(self.paths, starts, strict=False)
        ]
        self.connection.execute(f"CREATE OR REPLACE VIEW rows AS SELECT * FROM ({' UNION ALL '.join(parts)}) {source}")

    def drop(self, ask: str) -> int:
        """Leaves out the rows whose numbers SQL gives, and tells how many these are."""
        self.connection.execute(f"CREATE OR REPLACE TABLE dropped AS {ask}")
        count = int(self.asked("SELECT count(*) FROM dropped")[0][0])
        if count:
            self.show(f"WHERE {quoted(ROW)} NOT IN (FROM dropped)")
            self.count = sum(self.counts) - count
        return count

    def number(self, name: str) -> str:
        """The class of a label as SQL, -1 where there is none."""
        kind, value = self.kinds[name].dtype.kind, quoted(name)
        if not self.are_numbers:
            return f"coalesce(enum_code({value}::VARCHAR::{quoted(CLASS)})::INTEGER, -1)"
        if kind == "f":
            value = f"CASE WHEN isnan({value}) THEN -1 ELSE {value} END"
        return f"coalesce({value}::INTEGER, -1)"


def agreed(paths: Sequence[Path], said: Sequence[dict[str, Any]]) -> Sequence[str] | None:
    """What files call the classes; where these are but numbers the most. Raises SetupError where they do not agree."""
    names = [list[str](one["classes"]) for one in said if "classes" in one]
    longest = max(names, key=len, default=[])
    numbers = [str(number) for number in range(len(longest))]
    for path, one in zip(paths, names, strict=False):
        if one != (longest[: len(one)] if longest == numbers else longest):
            raise SetupError(
                f"{path.name} has the classes {', '.join(one[:9])}; expected {', '.join(longest[:9])}, as other files. "
                "Give all parts the same class_names."
            )
    return longest or None


def found_at(path: str | Path) -> list[Path]:
    """The Parquet files at a path: it alone, or all in the folder. Raises SetupError where there is none."""
    at = Path(path).expanduser()
    found = sorted(at.glob("*.parquet")) if at.is_dir() else [at] * at.is_file()
    if not found:
        raise SetupError(f"predictions is {str(path)!r}; expected a Parquet file or a folder of them. Check the path.")
    return found


def without_mask(values: Any) -> np.ndarray:
    """An array with NaN, NaT or None for what is missing."""
    missing = np.ma.getmaskarray(values)
    if not missing.any():
        return np.asarray(values)
    nothing = {"i": np.nan, "u": np.nan, "f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
    found = np.array(values, float if values.dtype.kind in "iu" else object if nothing is None else values.dtype)
    found[missing] = nothing
    return found
