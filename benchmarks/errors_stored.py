"""What a table in a Parquet file costs: time to open it, to click, and the peak of memory of a fresh process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from errors_timing import wall

WRITE = """
    COPY (
        SELECT i AS index, t::INTEGER AS target,
            CASE WHEN random() < 0.9 THEN t ELSE floor(random() * 10) END::INTEGER AS prediction,
            (-ln(1 - random()))::FLOAT AS loss, random()::FLOAT AS confidence, random()::FLOAT AS margin,
            ['north', 'south', 'east', 'west'][1 + (i % 4)::INTEGER] AS site
        FROM (SELECT i, floor(random() * 10) AS t FROM range({rows}) AS r(i))
    ) TO '{path}' (FORMAT parquet)
"""


def resident() -> int:
    """The highest resident memory of this program, in MiB; needs /proc."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))) >> 10


def stored(rows: int) -> None:
    """Writes a file, and measures in a process of its own."""
    if find_spec("duckdb") is None:
        print("\nstored is left out: duckdb is not installed.")
        return
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.parquet"
        connection = duckdb.connect(config={"memory_limit": "1GB", "temp_directory": folder})
        connection.execute(WRITE.format(rows=rows, path=path))
        print(
            f"\nstored, {rows:.0e} rows in {path.stat().st_size / 1e6:.0f} MB on disk; seconds on the wall", flush=True
        )
        subprocess.run([sys.executable, __file__, str(path)], check=True)


def measure(path: str) -> None:
    """Opens a file and clicks through it."""
    from nbdebug.predictions.parquet_table import ParquetTable
    from nbdebug.predictions.table import Query
    from nbdebug.tools.errors import Errors
    from nbdebug.tools.errors.cards import query_cards

    held: list[Any] = []
    before = resident()

    def told(name: str, work: Callable[[], Any]) -> None:
        seconds = wall(work)
        print(f"  {name:28} {seconds:8.2f} s   peak {resident():5} MiB, {before} of it imports", flush=True)

    told("open", lambda: held.append(Errors(ParquetTable.open(path), "")))
    (errors,) = held
    told("matrix", lambda: errors.table.matrix)
    told("24 cards of a right cell", lambda: query_cards(errors, Query(cells=((3, 3),))))
    told("24 cards of a wrong cell", lambda: query_cards(errors, Query(cells=((3, 4),))))
    told("24 cards from row 5,000", lambda: query_cards(errors, Query(cells=((3, 3),), start=5000)))
    told("24 cards of a range and text", lambda: query_cards(errors, Query(**FILTERED)))
    told("the next page of it", lambda: query_cards(errors, Query(**FILTERED, start=24)))
    told("a sample of 1e5 rows", lambda: errors.table.sample(100_000))


FILTERED: dict[str, Any] = {"ranges": {"confidence": (0.2, 0.3)}, "values": {"site": ["north"]}, "sort": "margin"}

if __name__ == "__main__":
    measure(sys.argv[1])
