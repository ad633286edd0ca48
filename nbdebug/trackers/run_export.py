"""Export of a run to trackers: while its record grows, or afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from nbdebug.finding import Finding
from nbdebug.records import Record
from nbdebug.records.table import StepTable
from nbdebug.report import Report
from nbdebug.serialization.schema import document, to_json
from nbdebug.trackers.registry import find_tracker
from nbdebug.trackers.tracker import Histogram, Row, Tracker
from nbdebug.views.line_chart import thin_indices

# The statistics of layers that become curves; the histograms and the record hold the others.
_LAYER_SIGNALS = ("weight.norm", "gradient.norm", "update.ratio", "activation.dead", "activation.saturated")
_MAX_HISTOGRAM_STEPS = 32  # of an export after the run; during a run, each update adds the newest
_TIME_SHARE, _MIN_SECONDS = 0.0025, 1.0  # of the run time, and between two updates


class _ExportableRun(Protocol):
    """A run that has ended."""

    @property
    def record(self) -> Record:
        """All numbers."""

    @property
    def report(self) -> Report:
        """All findings."""

    def to_html(self) -> str:
        """Return the page of the run."""


class RunExport:
    """Sends what is new in a growing record to trackers, in at most 1/400 of the run time.

    ``targets`` is a run that the user has opened in a tracker, or a list of them. Raises SetupError for anything else.
    """

    def __init__(self, targets: Any) -> None:
        listed = targets if isinstance(targets, (list, tuple)) else [targets]
        self.trackers = [find_tracker(target) for target in listed]
        self.next_time = 0.0
        self._sent_steps: dict[tuple[Tracker, str], int] = {}
        self._sent_findings: tuple[str, ...] | None = None

    def advance(self, record: Record, findings: Sequence[Finding]) -> None:
        """Send what is new, if an update is due."""
        started = time.perf_counter()
        if not self.trackers or started < self.next_time:
            return
        self._send(record, findings, max_histogram_steps=1)
        now = time.perf_counter()
        self.next_time = now + max(_MIN_SECONDS, (now - started) / _TIME_SHARE)

    def finish(self, run: _ExportableRun) -> None:
        """Send the rest of a run that has ended, and its files: the record, the page and the findings."""
        if not self.trackers:
            return
        self._send(run.record, run.report.findings, max_histogram_steps=_MAX_HISTOGRAM_STEPS)
        with TemporaryDirectory() as folder:
            run.record.save(Path(folder) / "nbdebug.nbd")
            (Path(folder) / "nbdebug.html").write_text(run.to_html(), encoding="utf-8")
            findings = to_json(document("Training", run.report.findings), 1)
            (Path(folder) / "nbdebug.json").write_text(f"{findings}\n", encoding="utf-8")
            for tracker in self.trackers:
                tracker.add_files(Path(folder))

    def _send(self, record: Record, findings: Sequence[Finding], max_histogram_steps: int) -> None:
        for tracker in self.trackers:
            tracker.add_rows(self._new_rows(tracker, record))
            for step, histograms in self._new_histograms(tracker, record, max_histogram_steps):
                tracker.add_histograms(step, histograms)
        texts = tuple(finding.headline for finding in findings)
        if texts != self._sent_findings:
            self._sent_findings = texts
            for tracker in self.trackers:
                tracker.add_findings(record.steps, findings)

    def _new_rows(self, tracker: Tracker, record: Record) -> list[Row]:
        """Return the numbers since the last update by step, each curve thinned with its extremes kept."""
        rows: dict[int, dict[str, float]] = {}
        for table, column, name in _curves(record):
            steps, values = table.column(column)
            start = int(np.searchsorted(steps, self._sent_steps.get((tracker, name), -1), side="right"))
            steps, values = steps[start:], values[start:]
            for index in thin_indices(values.tolist(), tracker.max_points):
                rows.setdefault(int(steps[index]), {})[name] = float(values[index])
            if len(steps):
                self._sent_steps[tracker, name] = int(steps[-1])
        return sorted(rows.items())

    def _new_histograms(
        self, tracker: Tracker, record: Record, max_steps: int
    ) -> Iterator[tuple[int, dict[str, Histogram]]]:
        """Yield steps since the last update, evenly spaced up to the newest, each with its histograms."""
        sent_step = self._sent_steps.get((tracker, ""), -1)
        indices = [index for index, step in enumerate(record.shapes.steps) if step > sent_step]
        for index in indices[:: -(-len(indices) // max_steps) or 1] if max_steps > 1 else indices[-1:]:
            packed = dict(zip(record.histogram_names, record.shapes.row(index), strict=False))
            histograms = {_tag(*name.split("|", 1)): Histogram.from_packed(bins) for name, bins in packed.items()}
            self._sent_steps[tracker, ""] = step = record.shapes.steps[index]
            yield step, {name: histogram for name, histogram in histograms.items() if histogram is not None}


def _curves(record: Record) -> Iterator[tuple[StepTable, str, str]]:
    """Yield the table, the column and the name of each curve."""
    for table in (record.run, record.evaluations):
        for column in tuple(table.columns):
            yield table, column, _tag(column)
    for column in tuple(record.layers.columns):
        signal, _, tensor = column.partition("|")
        if signal in _LAYER_SIGNALS:
            yield record.layers, column, _tag(signal, tensor)


def _tag(signal: str, tensor: str = "") -> str:
    """Return the name of a curve or histogram; trackers group names by the part before the first slash."""
    return f"nbdebug.{signal}/{tensor}" if tensor else f"nbdebug/{signal}"
