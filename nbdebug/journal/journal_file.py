"""The file of a journal: it only grows, each entry is on the disk before the call returns, and others may write too."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from nbdebug.exceptions import SetupError
from nbdebug.journal.entries import Entry, read_entries
from nbdebug.validation import argument_error

_FRONT_MATTER = "---\nnbdebug: journal\nversion: 1\ncreated: {time}\n---\n\n# Debugging journal\n"


class JournalFile:
    """One Markdown file. ``entries`` are those of the file when it was last read or written.

    Raises SetupError for a file that is no journal, and for one that cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.entries = path, list[Entry]()
        self._stamp: tuple[int, int] | None = None
        self.update()

    def update(self) -> None:
        """Read the file again if another program has changed it; start it again if it is gone."""
        try:
            if self._stamp is None or self._stamp != self._present_stamp():
                self._read()
        except (OSError, UnicodeDecodeError) as error:
            raise self._error(error) from None

    def append(self, kind: str, data: dict[str, object]) -> Entry:
        """Write an entry, and return it once it is on the disk."""
        entry = Entry(kind, _current_time(), data)
        try:
            self._write(entry.to_markdown())
        except OSError as error:
            raise self._error(error) from None
        self.entries.append(entry)
        return entry

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        if text and "nbdebug: journal" not in text[:200]:
            raise argument_error("path", str(self.path), "a new file or a journal of nbdebug", "Choose another name")
        self._stamp = self._present_stamp()
        self.entries[:] = read_entries(text)
        if not text:
            self._write(_FRONT_MATTER.format(time=_current_time()))
        elif not text.endswith("\n"):
            self._write("\n")  # a killed process has left a part of an entry

    def _present_stamp(self) -> tuple[int, int]:
        """Return the size of the file and the time of its last change; zeros without a file."""
        if not self.path.exists():
            return 0, 0
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def _write(self, text: str) -> None:
        """Append a text by one write, and return when it is on the disk."""
        is_new, data = not self.path.exists(), text.encode()
        size = (self._stamp or (0, 0))[0] + len(data)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new and hasattr(os, "O_DIRECTORY"):  # the name of a new file is on the disk with its folder
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        stamp = self._present_stamp()
        self._stamp = stamp if stamp[0] == size else None  # another program has written in between

    def _error(self, error: Exception) -> SetupError:
        return SetupError(f"path is {str(self.path)!r}; expected a file that can be written ({error}).")


def _current_time() -> str:
    """Return the local time in ISO format, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
