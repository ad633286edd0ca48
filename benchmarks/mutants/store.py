"""Results in files of JSON lines, to which several processes may append."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Store:
    """A dictionary of JSON objects that is kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.rows[row.pop("key")] = row

    def __contains__(self, key: str) -> bool:
        """Check whether there is a row of a key."""
        return key in self.rows

    def __getitem__(self, key: str) -> dict[str, Any]:
        """Return the row of a key."""
        return self.rows[key]

    def add(self, key: str, row: dict[str, Any]) -> dict[str, Any]:
        """Append a row to the file, and return it."""
        line = json.dumps({"key": key, **row}) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
        self.rows[key] = json.loads(json.dumps(row))
        return self.rows[key]
