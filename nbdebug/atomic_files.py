"""Writes of files in one step."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees either all of the former content or all of the new one.

    Raises OSError if the file cannot be written; the former content then stays. A device or a pipe, such as
    ``/dev/stdout``, is written to, and not replaced.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
