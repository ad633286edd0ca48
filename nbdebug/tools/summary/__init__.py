"""The summary: what each submodule is given and gives, what it holds, and what trains it."""

from nbdebug.tools.summary.result import Row as Row
from nbdebug.tools.summary.result import Summary as Summary
from nbdebug.tools.summary.tool import summary as summary

__all__ = ["Row", "Summary", "summary"]
