"""Compare optimizers and schedules: which converge, which are stable, and which are tied."""

from __future__ import annotations

from nbdebug.tools.compare_optimizers.result import CandidateResult, CandidateRun, OptimizerComparison
from nbdebug.tools.compare_optimizers.tool import compare_optimizers

__all__ = ["CandidateResult", "CandidateRun", "OptimizerComparison", "compare_optimizers"]
