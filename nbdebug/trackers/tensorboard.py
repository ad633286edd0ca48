"""TensorBoard: an opened ``SummaryWriter`` of torch, or of tensorboardX."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdebug.finding import Finding
from nbdebug.trackers.tracker import Histogram, Row, Tracker, findings_as_markdown


class TensorBoardTracker(Tracker):
    """Writes scalars, histograms and findings as events, and files next to the event files."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Write a scalar for each number."""
        for step, numbers in rows:
            for name, value in numbers.items():
                self.writer.add_scalar(name, value, step)

    def add_histograms(self, step: int, histograms: Mapping[str, Histogram]) -> None:
        """Write histograms whose counts are percentages."""
        for name, histogram in histograms.items():
            shares, centers = histogram.percentages, histogram.centers
            self.writer.add_histogram_raw(
                name,
                min=float(histogram.edges[0]),
                max=float(histogram.edges[-1]),
                num=100,
                sum=float(shares @ centers),
                sum_squares=float(shares @ centers**2),
                bucket_limits=histogram.edges[1:].tolist(),
                bucket_counts=shares.tolist(),
                global_step=step,
            )

    def add_findings(self, step: int, findings: Sequence[Finding]) -> None:
        """Write the findings as text, and their number as a scalar."""
        faults = sum(finding.severity != "note" for finding in findings)
        self.writer.add_scalar("nbdebug/faults", faults, step)
        self.writer.add_text("nbdebug/findings", findings_as_markdown(findings), step)

    def add_files(self, folder: Path) -> None:
        """Copy files to the folder of the writer, unless that is on another machine."""
        target = Path(self.writer.get_logdir() if hasattr(self.writer, "get_logdir") else self.writer.logdir)
        if target.is_dir():
            shutil.copytree(folder, target, dirs_exist_ok=True)
        self.writer.flush()
