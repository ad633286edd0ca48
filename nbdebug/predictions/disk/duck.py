"""DuckDB, which reads and writes Parquet files: a connection that keeps to a limit, and names that are safe in SQL."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError

MEMORY = "1GB"  # what DuckDB may hold; what does not fit goes to the folder for temporary files
KEY = "nbdebug"  # under which a Parquet file says what the numbers in it stand for


def connected() -> Any:
    """A connection of one's own. Raises SetupError where DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        raise SetupError("duckdb is not installed; expected it for Parquet files. Run pip install duckdb.") from None
    found = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": tempfile.gettempdir()})
    found.execute("SET enable_progress_bar = false")
    return found


def quoted(name: str) -> str:
    """A name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: object) -> str:
    """A text as SQL."""
    return "'" + str(value).replace("'", "''") + "'"


def listed(values: Sequence[object]) -> str:
    """Texts as a list in SQL."""
    return "[" + ", ".join(map(text, values)) + "]"


def write(connection: Any, query: str, path: Path, said: dict[str, Any]) -> None:
    """Writes the rows of a query as a Parquet file, which is there as a whole or not at all."""
    whole, part = Path(path), Path(path).with_name(f".{Path(path).name}.part")
    try:
        connection.execute(
            f"COPY ({query}) TO {text(part)} (FORMAT parquet, KV_METADATA {{{KEY}: {text(json.dumps(said))}}})"
        )
        part.replace(whole)
    finally:
        part.unlink(missing_ok=True)


def said_in(connection: Any, path: Path) -> dict[str, Any]:
    """What a Parquet file says of itself; nothing where nbdebug did not write it."""
    found = connection.execute(f"SELECT value FROM parquet_kv_metadata({text(path)}) WHERE key = ?", [KEY.encode()])
    row = found.fetchone()
    return dict(json.loads(bytes(row[0]))) if row else {}
