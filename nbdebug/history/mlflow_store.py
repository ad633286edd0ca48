"""Metrics of MLflow: text files by metric, and the SQLite database that MLflow 3 writes by default."""

from __future__ import annotations

import math
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

Points = dict[str, list[tuple[float | None, float]]]
_METRIC_LINE = re.compile(r"\d{9,} \S+ \d+$")  # milliseconds, value, step
_SQLITE_SIGNATURE = b"SQLite format 3\0"
# The schema is that of mlflow/store/tracking/dbmodels/models.py.
_LAST_RUN = "SELECT run_uuid FROM metrics ORDER BY timestamp DESC LIMIT 1"
_METRICS = "SELECT key, step, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY step, timestamp"


def is_metric_line(line: str) -> bool:
    """Check whether a line is one of a metric file."""
    return bool(_METRIC_LINE.match(line.strip()))


def read_metric_text(text: str) -> list[tuple[float | None, float]]:
    """Return steps and values of a metric file."""
    rows = [line.split() for line in text.splitlines() if is_metric_line(line)]
    return [(float(step), float(value)) for _, value, step in rows]


def is_database(path: Path) -> bool:
    """Check whether a file is a database of SQLite."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE_SIGNATURE)) == _SQLITE_SIGNATURE


def read_database(path: Path) -> Points:
    """Return the metrics of the run that was logged last; empty if the database has no metrics of MLflow."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        try:
            last_run = database.execute(_LAST_RUN).fetchone()
            rows = database.execute(_METRICS, last_run).fetchall() if last_run else []
        except sqlite3.DatabaseError:
            return {}
    points: Points = {}
    for name, step, value, is_nan in rows:
        points.setdefault(name, []).append((float(step), math.nan if is_nan else _restore_infinity(value)))
    return points


def _restore_infinity(value: float) -> float:
    """Return infinity for the largest number, which MLflow stores in its place."""
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value
