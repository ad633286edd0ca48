"""trackio: the run that ``trackio.init()`` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdebug.finding import Finding
from nbdebug.trackers.tracker import Histogram, Row, Tracker, findings_as_markdown


class TrackioTracker(Tracker):
    """Logs rows at their own steps, histograms, findings as Markdown, and files as an artifact."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Log each row at its step."""
        for step, numbers in rows:
            self.run.log(dict(numbers), step=step)

    def add_histograms(self, step: int, histograms: Mapping[str, Histogram]) -> None:
        """Log histograms whose counts are percentages."""
        from trackio import Histogram as TrackioHistogram

        items = histograms.items()
        values = {name: TrackioHistogram(np_histogram=(item.percentages, item.edges)) for name, item in items}
        self.run.log(values, step=step)

    def add_findings(self, step: int, findings: Sequence[Finding]) -> None:
        """Log the findings as Markdown, and the number of faults."""
        from trackio import Markdown

        faults = sum(finding.severity != "note" for finding in findings)
        content = {"nbdebug/faults": faults, "nbdebug/findings": Markdown(findings_as_markdown(findings))}
        self.run.log(content, step=step)

    def add_files(self, folder: Path) -> None:
        """Log the files as an artifact."""
        self.run.log_artifact(folder, name="nbdebug", type="nbdebug")
