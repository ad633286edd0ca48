"""The folder of a run in an object store or on another machine, by fsspec, such as ``s3://`` or ``sftp://``.

An object cannot grow, so the record is stored in parts. Both ends have a local copy of the record, which watch writes
and attach reads as that of any other folder.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.watching.run_folder import RunFolder

_UPLOAD_SECONDS = 0.5
_MAX_PARTS = 64  # more are joined, since a reader lists them all
_PART_NAME = re.compile(r"record-(\d+)-(\d+)\.nbd")


def open_run_folder(location: str | Path) -> RunFolder:
    """Return the folder of a run: a path of this machine, or a URL that fsspec opens.

    Raises SetupError for a URL whose protocol is unknown, or whose package is not installed.
    """
    return RemoteRunFolder(str(location)) if is_url(location) else RunFolder(Path(location))


def is_url(location: str | Path) -> bool:
    """Check whether a location is a URL, and no path of this machine."""
    return "://" in str(location)


class RemoteRunFolder(RunFolder):
    """A folder behind a URL; ``path`` is a temporary local copy of it.

    A thread uploads the record while it grows, so that training never waits for the network.
    """

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self.files, self.root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SetupError(f"folder is {url!r}; expected a URL that fsspec opens ({error}). Install it.") from None
        self.url = url
        parent = tempfile.mkdtemp(prefix="nbdebug-")
        super().__init__(Path(parent) / (self.root.rstrip("/").rpartition("/")[2] or "run"))
        self.path.mkdir()
        weakref.finalize(self, shutil.rmtree, parent, ignore_errors=True)
        self._downloaded = 0  # the generation of the local copy
        self._upload: _Upload | None = None

    def prepare(self) -> None:
        """Remove the files of an earlier run, and start to upload; raises SetupError if that fails."""
        super().prepare()
        try:
            self.files.makedirs(self.root, exist_ok=True)
            for name in filter(self._is_own_file, self._names()):
                self.files.rm_file(f"{self.root}/{name}")
        except Exception as error:  # each file system has its own
            raise SetupError(
                f"record is {self.url!r}; expected a folder that can be written ({type(error).__name__}: {error}). "
                "Pass another URL."
            ) from None
        self._upload = _Upload(self.files, self.root, self.record)
        self._upload.start()

    def close(self) -> None:
        """Upload what is left of the record."""
        if self._upload is not None:
            self._upload.finish()

    def write_findings(self, content: dict[str, Any]) -> None:
        """Upload what is left of the record, then a document of findings; raises OSError if that fails."""
        super().write_findings(content)
        self.close()
        self.files.pipe_file(f"{self.root}/{self.findings.name}", self.findings.read_bytes())

    def exists(self) -> bool:
        """Check whether there is such a folder."""
        return bool(self.files.exists(self.root))

    def fetch(self) -> None:
        """Download what is new; what is being replaced is read the next time."""
        with suppress(FileNotFoundError):
            names = self._names()
            self._fetch_record([(int(match[1]), int(match[2])) for match in map(_PART_NAME.fullmatch, names) if match])
            if self.findings.name in names:  # written last, so the record is complete
                self.findings.write_bytes(self.files.cat_file(f"{self.root}/{self.findings.name}"))
            else:
                self.findings.unlink(missing_ok=True)

    def _is_own_file(self, name: str) -> bool:
        """Check whether a name is that of a part of the record or of the findings; other ranks have folders here."""
        return name == self.findings.name or bool(_PART_NAME.fullmatch(name))

    def _names(self) -> list[str]:
        self.files.invalidate_cache(self.root)
        return [path.rpartition("/")[2] for path in self.files.ls(self.root, detail=False)]

    def _fetch_record(self, parts: list[tuple[int, int]]) -> None:
        """Append the new parts of the newest generation; another generation replaces the local copy."""
        newest = max((generation for generation, _ in parts), default=0)
        starts = sorted(start for generation, start in parts if generation == newest)
        is_other = newest != self._downloaded
        size = 0 if is_other or not self.record.exists() else self.record.stat().st_size
        data = bytearray()
        for start in starts:
            if start == size + len(data):
                data += self.files.cat_file(f"{self.root}/{_part_name(newest, start)}")
        if not data:
            return
        if is_other:
            other = self.record.with_suffix(".new")
            other.write_bytes(data)
            os.replace(other, self.record)
            self._downloaded = newest
        else:
            with self.record.open("ab") as file:
                file.write(data)
        with suppress(NotImplementedError):
            written = self.files.modified(f"{self.root}/{_part_name(newest, starts[-1])}").timestamp()
            os.utime(self.record, (written, written))


class _Upload(threading.Thread):
    """Uploads a growing file in parts; a file that replaces it begins another generation of parts."""

    def __init__(self, files: Any, root: str, path: Path) -> None:
        super().__init__(daemon=True)
        self._files, self._root, self._path = files, root, path
        self._ending = threading.Event()
        self._identity: tuple[int, int] | None = None
        self._generation = self._uploaded = self._parts = 0

    def run(self) -> None:
        """Upload until the end; a network that fails is tried again."""
        while not self._ending.wait(_UPLOAD_SECONDS):
            with suppress(Exception):
                self._upload_new()

    def finish(self) -> None:
        """Upload the rest; raises the error of the file system if that fails."""
        if self._ending.is_set():
            return
        self._ending.set()
        self.join()
        self._upload_new()

    def _upload_new(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            identity = status.st_dev, status.st_ino
            begins = identity != self._identity or self._parts >= _MAX_PARTS
            generation, start = (self._generation + 1, 0) if begins else (self._generation, self._uploaded)
            file.seek(start)
            data = file.read()
        if not data:
            return
        self._files.pipe_file(f"{self._root}/{_part_name(generation, start)}", data)
        previous = self._generation
        self._identity, self._generation, self._uploaded = identity, generation, start + len(data)
        self._parts = 1 if begins else self._parts + 1
        if begins and previous:
            for path in self._files.glob(f"{self._root}/record-{previous:06}-*.nbd"):
                self._files.rm_file(path)


def _part_name(generation: int, start: int) -> str:
    return f"record-{generation:06}-{start:015}.nbd"
