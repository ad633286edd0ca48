"""Report of a whole session: findings, recommendations, results, environment and open questions, in one file."""

from __future__ import annotations

from nbdebug.run_report.collection import Subject as Subject
from nbdebug.run_report.collection import collect_sections as collect_sections
from nbdebug.run_report.collection import record_sections as record_sections
from nbdebug.run_report.writers import write_report as write_report

__all__ = ["Subject", "collect_sections", "record_sections", "write_report"]
