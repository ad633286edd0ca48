"""Model summary: one row per submodule."""

from __future__ import annotations

from nbdebug.tools.summary.result import Summary as Summary
from nbdebug.tools.summary.result import SummaryRow as SummaryRow
from nbdebug.tools.summary.tool import summary as summary

__all__ = ["Summary", "SummaryRow", "summary"]
