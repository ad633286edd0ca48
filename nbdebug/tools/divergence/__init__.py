"""Differences between two runs: the first step and signal at which they part."""

from __future__ import annotations

from nbdebug.tools.divergence.comparison import compare_runs, run_record
from nbdebug.tools.divergence.result import RunDivergence

__all__ = ["RunDivergence", "compare_runs", "run_record"]
