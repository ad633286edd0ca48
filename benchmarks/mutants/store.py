"""Results in files of JSON lines, to which several processes may append."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Store:
    """A dictionary of JSON objects that is kept in a file. Rows that another process appends are read when needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, dict[str, Any]] = {}
        self._bytes_read = 0

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """All rows by key."""
        self._read_new_lines()
        return self._rows

    def __contains__(self, key: str) -> bool:
        """Check whether there is a row of a key."""
        return key in self._rows or key in self.rows

    def __getitem__(self, key: str) -> dict[str, Any]:
        """Return the row of a key."""
        return self._rows[key] if key in self._rows else self.rows[key]

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Append a row to the file."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, (json.dumps({"key": key, **row}) + "\n").encode())
        finally:
            os.close(descriptor)

    def _read_new_lines(self) -> None:
        if not self.path.exists() or self.path.stat().st_size == self._bytes_read:
            return
        with self.path.open("rb") as file:
            file.seek(self._bytes_read)
            content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        self._bytes_read += len(complete)
        for line in complete.decode().splitlines():
            row = json.loads(line)
            self._rows[row.pop("key")] = row
