"""The line of a finding on one column of the inputs."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from nbdebug.setup.column_lines import column_line
from nbdebug.source.location import SourceLine


def only_column_line(setup: Setup, finding: Finding) -> SourceLine | None:
    """Return the line that makes the only column of a table that a finding names by its evidence; None for several."""
    evidence = finding.evidence
    rows = evidence.get("features", ())
    if len(rows) != 1 or "columns" not in evidence:
        return None
    return column_line(setup, evidence["input"], rows[0], evidence["columns"])
