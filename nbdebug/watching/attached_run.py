"""A run of another process, followed by the record that it writes to a folder."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from nbdebug.exceptions import SetupError
from nbdebug.records import Record, RecordReader
from nbdebug.report import Report
from nbdebug.result import TextRepr
from nbdebug.serialization.schema import read_findings
from nbdebug.views.live import LiveScreen, Screen, show_view
from nbdebug.watching.remote_folder import open_run_folder
from nbdebug.watching.result import WatchResult, describe_cost, run_view
from nbdebug.watching.rule_schedule import FINDINGS_TITLE, judge_record
from nbdebug.watching.run_folder import RunFolder

POLL_SECONDS = 0.5
_JUDGMENT_SECONDS, _QUIET_SECONDS = 4.0, 10.0


class AttachedRun(TextRepr):
    """A run that writes its record to a folder; displayed in a notebook, it follows the run until that ends.

    ``record`` holds the numbers so far. ``update()`` reads what is new; the display does so by itself. A run that
    starts again in the same folder takes the place of the earlier one.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self._reader = folder, RecordReader(folder.record)
        self._report = Report(title=FINDINGS_TITLE)

    @property
    def record(self) -> Record:
        """The record as last read."""
        return self._reader.record

    @property
    def is_finished(self) -> bool:
        """True once the run has ended and its findings are written, or would have been long ago."""
        has_ended = bool(self.record.about.get("finished") or self.record.about.get("interrupted"))
        return self.folder.findings.exists() or (has_ended and self._silent_seconds > _QUIET_SECONDS)

    @property
    def findings(self) -> Report:
        """All findings of a run that has ended; before that, those that its record alone shows."""
        content = self.folder.read_findings()
        if content is None:
            return judge_record(self.record)
        return Report(tuple(read_findings(content)), title=FINDINGS_TITLE)

    @property
    def result(self) -> WatchResult:
        """The run so far as a result, with its findings."""
        about = self.record.about
        overhead, interrupted = float(about.get("overhead", 0.0)), bool(about.get("interrupted"))
        return WatchResult(self.record, self.record.steps, interrupted, overhead, self.findings)

    def update(self) -> bool:
        """Read what is new, and return whether another run has started in the folder since the last call.

        Before the first training pass of the run, the record is empty. Raises SetupError for a file of another kind.
        """
        self.folder.fetch()
        if not self.folder.record.exists():
            return False
        return self._reader.update()

    @property
    def status(self) -> str:
        """The number of steps, and whether the run goes on."""
        about = self.record.about
        if not about:
            return "no training pass" if self.is_finished else "waiting for the first training pass"
        state = "interrupted" if about.get("interrupted") else "finished" if about.get("finished") else self._activity
        cost = describe_cost(float(about["overhead"]), 0) if "overhead" in about else ""
        return "; ".join(filter(None, [f"{self.record.steps} steps", state, cost]))

    @property
    def _activity(self) -> str:
        """Whether the record still grows; a run that was killed writes no end."""
        seconds = self._silent_seconds
        return f"no news for {seconds:.0f} s" if seconds > _QUIET_SECONDS else "running"

    @property
    def _silent_seconds(self) -> float:
        """The time since the record has grown."""
        return time.time() - self.folder.record.stat().st_mtime

    def to_text(self) -> str:
        """Return the steps, the loss and the findings so far."""
        self.update()
        losses = self.record.series("loss")[1]
        loss = f", loss {losses[0]:.4g} at the first step and {losses[-1]:.4g} at the last" if len(losses) else ""
        faults = (finding.summary_line for finding in self.findings.faults)
        return "\n".join([f"nbdebug run {self.folder.path.name}: {self.status}{loss}", *faults])

    def _ipython_display_(self) -> None:
        """Display the run; in a notebook kernel, the display follows it."""
        self.update()
        if self.is_finished:
            for part in (self.result, self.findings):
                part._ipython_display_()
            return
        screen = show_view(run_view(self.record, (), self.status))
        if not isinstance(screen, LiveScreen):
            print(self.to_text())
            return
        cards = show_view(self._report.view())
        threading.Thread(target=self._follow, args=(screen,), daemon=True).start()
        threading.Thread(target=self._judge_repeatedly, args=(cards,), daemon=True).start()

    def _follow(self, screen: LiveScreen) -> None:
        """Keep a display up to date until the run ends."""
        view = None
        with screen:
            while not self.is_finished:
                is_other = self._update_quietly()
                if is_other or view is None:
                    view = run_view(self.record, (), self.status)
                    screen.update(view)
                view.findings = [finding.to_dict() for finding in self._report]
                view.title, view.status = f"Run {self.folder.path.name}", self.status
                screen.refresh()
                time.sleep(POLL_SECONDS)
            self._update_quietly()
            screen.finish(self.result)

    def _judge_repeatedly(self, cards: Screen) -> None:
        """Show the findings, by asking the rules again every few seconds until the run ends.

        This has a thread of its own, since the first import of the rules must not delay a step.
        """
        next_time = 0.0
        with cards:
            while not self.is_finished:
                if time.monotonic() >= next_time:
                    self._report = judge_record(self.record)
                    cards.update(self._report.view())
                    next_time = time.monotonic() + _JUDGMENT_SECONDS
                time.sleep(POLL_SECONDS)
            cards.finish(self.findings)

    def _update_quietly(self) -> bool:
        try:
            return self.update()
        except SetupError:  # the file is being replaced
            return False


def attach(folder: str | Path) -> AttachedRun:
    """Return the run that writes its record to a folder, as ``nbdebug run train.py --record runs/42`` does.

    The folder may be a URL that fsspec opens, such as "s3://bucket/runs/42". Displayed in a notebook, the result
    follows the run live; in any process, ``record`` and ``findings`` hold what is known so far. Raises SetupError if
    there is no such folder, or its record is of another kind.
    """
    run_folder = open_run_folder(folder)
    if not run_folder.exists():
        raise SetupError(
            f"folder is {str(folder)!r}; expected that of a run. Start one: nbdebug run train.py --record {folder}."
        )
    run = AttachedRun(run_folder)
    run.update()
    return run
