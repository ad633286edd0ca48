"""MLflow: the run that ``mlflow.start_run()`` returns, in any store."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdebug.finding import Finding
from nbdebug.trackers.tracker import Histogram, Row, Tracker, findings_as_markdown

_MAX_BATCH = 1000  # metrics in one call of log_batch, by the REST API of MLflow
_FORBIDDEN = re.compile(r"[^\w\-. :/]")  # in the name of a metric
_FOLDER = "nbdebug"


class MLflowTracker(Tracker):
    """Logs metrics, tags and artifacts. MLflow has no histograms of its own: those are in the page of the run."""

    max_points = 100  # a store writes each number on its own

    def __init__(self, run: Any) -> None:
        from mlflow import MlflowClient

        self.client, self.run_id = MlflowClient(), run.info.run_id

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Log each number as a metric."""
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        metrics = [
            Metric(_FORBIDDEN.sub("_", name), value, now, step)
            for step, numbers in rows
            for name, value in numbers.items()
        ]
        for start in range(0, len(metrics), _MAX_BATCH):
            self.client.log_batch(self.run_id, metrics[start : start + _MAX_BATCH])

    def add_histograms(self, step: int, histograms: Mapping[str, Histogram]) -> None:
        """Add nothing."""

    def add_findings(self, step: int, findings: Sequence[Finding]) -> None:
        """Log the findings as an artifact, and the codes of the faults as a tag."""
        codes = dict.fromkeys(finding.code for finding in findings if finding.severity != "note")
        self.client.set_tag(self.run_id, "nbdebug.faults", ", ".join(codes) or "none")
        self.client.log_text(self.run_id, findings_as_markdown(findings), f"{_FOLDER}/findings.md")

    def add_files(self, folder: Path) -> None:
        """Log the files as artifacts."""
        self.client.log_artifacts(self.run_id, str(folder), _FOLDER)
