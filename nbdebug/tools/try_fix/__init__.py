"""Trials of one change: the setup with and without it, trained on copies with matched seeds."""

from __future__ import annotations

from nbdebug.tools.try_fix.result import TriedFix
from nbdebug.tools.try_fix.tool import try_fix

__all__ = ["TriedFix", "try_fix"]
