"""Writes a prediction table as a Parquet file, which comes back as the same table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.exceptions import SetupError
from nbdebug.predictions.disk.duck import connected, quoted, write
from nbdebug.predictions.disk.files import INDEX
from nbdebug.predictions.disk.stored import top_names

if TYPE_CHECKING:
    from nbdebug.predictions.classes import Predictions


def to_parquet(table: Predictions, path: str | Path) -> None:
    """Writes the columns of a table, its likeliest classes and the names of all; not all scores, and no embedding.

    The file is there as a whole or not at all. Raises SetupError for columns that are called as the table's own.
    """
    import pandas as pd

    columns = own_columns(table)
    if taken := [name for name in table.columns if name in columns]:
        raise SetupError(f"column is {taken[0]!r}; expected another name than the table's own. Rename it.")
    connection = connected()
    connection.register("given", pd.DataFrame({**columns, **table.columns}))
    top = 0 if table.top is None else table.top.shape[1]
    said = {"classes": list(table.classes), "notes": list(table.notes), "top": top}
    names = ", ".join(map(quoted, [*columns, *table.columns]))
    write(connection, f"SELECT {names} FROM given", Path(path).expanduser(), said)


def own_columns(table: Predictions) -> dict[str, Any]:
    """The columns that every table has in a file."""
    found: dict[str, Any] = {} if table.index is None else {INDEX: table.index}
    found |= {"target": table.target, "prediction": table.prediction}
    if table.top is not None and table.chances is not None:
        likeliest, chances = top_names(table.top.shape[1])
        found |= dict(zip(likeliest, table.top.T, strict=True))
        found |= dict(zip(chances, table.chances.T, strict=True))
    return found
