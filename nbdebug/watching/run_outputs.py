"""Where a run is written while it goes on: a file, a folder behind a URL, and trackers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.finding import Finding
from nbdebug.records import Record
from nbdebug.records.record import RecordWriter
from nbdebug.trackers import RunExport
from nbdebug.watching.remote_folder import RemoteRunFolder, is_url

if TYPE_CHECKING:
    from nbdebug.watching.result import WatchResult

SAVE_SECONDS = 1.0
_Attempt = Callable[..., None]  # TimeBudget.attempt


class RunOutputs:
    """Writes a growing record to ``save``, a path or URL, and to ``trackers``; raises SetupError for others."""

    def __init__(self, save: str | Path | None, trackers: Any) -> None:
        self.remote = RemoteRunFolder(str(save)) if save is not None and is_url(save) else None
        path = self.remote.record if self.remote is not None else save
        self.writer = RecordWriter(Path(path)) if path is not None else None
        self.export = RunExport(trackers)

    def begin(self, record: Record) -> None:
        """Write the first file; raises SetupError if that fails."""
        if self.remote is not None:
            self.remote.prepare()
        self.write_file(record)

    def advance(self, record: Record, findings: Sequence[Finding], attempt: _Attempt) -> None:
        """Write what is new, where an update is due."""
        if self.writer is not None and time.perf_counter() - self.last_save > SAVE_SECONDS:
            attempt("file", self.write_file, record)
        attempt("trackers", self.export.advance, record, findings)

    def finish(self, result: WatchResult, attempt: _Attempt) -> None:
        """Write the rest of a run that has ended."""
        attempt("file", self.write_file, result.record)
        if self.remote is not None:
            attempt("upload", self.remote.close)
        attempt("trackers", self.export.finish, result)

    def write_file(self, record: Record) -> None:
        """Write new rows to the file, if there is one."""
        self.last_save = time.perf_counter()
        if self.writer is not None:
            self.writer.update(record)
