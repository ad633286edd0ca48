"""The contest of optimizers and schedules: which converges, which is stable, and what cannot be told apart."""

from nbdebug.tools.contest.result import Contest, Entry, Run
from nbdebug.tools.contest.tool import compare_optimizers

__all__ = ["Contest", "Entry", "Run", "compare_optimizers"]
