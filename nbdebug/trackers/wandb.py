"""Weights & Biases: the run that ``wandb.init()`` returns, online or offline as the user has opened it.

W&B drops rows whose step is below that of an earlier row, so nbdebug never ends a row: it adds the newest numbers to
the row that the user's next ``log`` ends. Whole curves become a table when the run ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdebug.finding import Finding
from nbdebug.trackers.tracker import Histogram, Row, Tracker

_STEP = "nbdebug/step"
_FINDING_COLUMNS = ("severity", "code", "name", "message", "place", "cause", "fix")


class WandbTracker(Tracker):
    """Adds the newest numbers to the user's rows, and logs findings and curves as tables, files as an artifact."""

    def __init__(self, run: Any) -> None:
        self.run, self.points = run, list[tuple[int, str, float]]()
        run.define_metric("nbdebug*", step_metric=_STEP)

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Add the newest value of each number to the row and to the summary."""
        self.points += [(step, name, value) for step, numbers in rows for name, value in numbers.items()]
        if rows:
            newest = {name: value for _, numbers in rows for name, value in numbers.items()}
            self.run.log({**newest, _STEP: rows[-1][0]}, commit=False)
            self.run.summary.update(newest)  # also of a user who logs nothing

    def add_histograms(self, step: int, histograms: Mapping[str, Histogram]) -> None:
        """Add histograms, whose counts are percentages, to the row."""
        from wandb import Histogram as WandbHistogram

        items = histograms.items()
        values = {name: WandbHistogram(np_histogram=(item.percentages, item.edges)) for name, item in items}
        self.run.log({**values, _STEP: step}, commit=False)

    def add_findings(self, step: int, findings: Sequence[Finding]) -> None:
        """Log the findings as a table, and the number of faults in the summary."""
        from wandb import Table

        rows = [[f.severity, f.code, f.name, f.message, str(f.where), f.cause, f.fix_text] for f in findings]
        self.run.log({"nbdebug/findings": Table(columns=[*_FINDING_COLUMNS], data=rows)}, commit=False)
        self.run.summary["nbdebug/faults"] = sum(finding.severity != "note" for finding in findings)

    def add_files(self, folder: Path) -> None:
        """Log the curves as a table, and the files as an artifact."""
        from wandb import Artifact, Table

        curves = Table(columns=["step", "curve", "value"], data=[[*point] for point in self.points])
        self.run.log({"nbdebug/curves": curves}, commit=False)
        artifact = Artifact(f"nbdebug-{self.run.id}", type="nbdebug")
        artifact.add_dir(str(folder))
        self.run.log_artifact(artifact)
