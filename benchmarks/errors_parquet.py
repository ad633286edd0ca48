"""Cost of a table in Parquet files: time to open it and to click, and the peak memory of a fresh process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from optional_packages import skip_text
from process_memory import peak_resident_kib
from timing import Task, wall_seconds

WRITE_TABLE = """
    COPY (
        SELECT i AS index, t::INTEGER AS target,
            CASE WHEN random() < 0.9 THEN t ELSE floor(random() * 10) END::INTEGER AS prediction,
            (-ln(1 - random()))::FLOAT AS loss, random()::FLOAT AS confidence, random()::FLOAT AS margin,
            ['north', 'south', 'east', 'west'][1 + (i % 4)::INTEGER] AS site
        FROM (SELECT i, floor(random() * 10) AS t FROM range({rows}) AS r(i))
    ) TO '{path}' (FORMAT parquet)
"""
RANKS = 8  # of the distributed evaluation that wrote the table
FILTERS: dict[str, Any] = {"ranges": {"confidence": (0.2, 0.3)}, "values": {"site": ["north"]}, "sort": "margin"}


def measure_parquet(rows: int) -> None:
    """Write a table, and measure it in a fresh process."""
    if reason := skip_text(["duckdb"]):
        print(f"\nparquet {reason}")
        return
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        connection = duckdb.connect(config={"memory_limit": "1GB", "temp_directory": folder})
        parts = [Path(folder) / f"part-{rank:05}-of-{RANKS:05}.parquet" for rank in range(RANKS)]
        for path in parts:
            connection.execute(WRITE_TABLE.format(rows=rows // RANKS, path=path))
        size = sum(path.stat().st_size for path in parts) / 1e6
        print(f"\nparquet, {rows:.0e} rows in {RANKS} parts, {size:.0f} MB on disk", flush=True)
        subprocess.run([sys.executable, __file__, folder], check=True)


def measure_file(path: str) -> None:
    """Open a file and query it."""
    from nbdebug.predictions.parquet_table import ParquetTable
    from nbdebug.predictions.table import Query
    from nbdebug.tools.errors import Errors
    from nbdebug.tools.errors.cards import query_cards

    results: list[Errors] = []
    imports_mib = peak_resident_kib() >> 10

    def print_time(name: str, task: Task) -> None:
        started = time.process_time()  # of all threads
        seconds = wall_seconds(task)
        memory = f"peak {peak_resident_kib() >> 10:5} MiB, of which imports {imports_mib}"
        print(f"  {name:28} {seconds:8.2f} s   {time.process_time() - started:6.2f} s of CPU   {memory}", flush=True)

    print_time("open", lambda: results.append(Errors(ParquetTable.open(path), "")))
    errors = results[0]
    print_time("matrix", lambda: errors.table.matrix)
    queries = {
        "24 cards of a correct cell": Query(cells=((3, 3),)),
        "24 cards of a wrong cell": Query(cells=((3, 4),)),
        "24 cards from row 5,000": Query(cells=((3, 3),), start=5000),
        "24 cards of a range and text": Query(**FILTERS),
        "the next page": Query(**FILTERS, start=24),
    }
    for name, query in queries.items():
        print_time(name, partial(query_cards, errors, query))
    print_time("a sample of 1e5 rows", lambda: errors.table.sample(100_000))


if __name__ == "__main__":
    measure_file(sys.argv[1])
