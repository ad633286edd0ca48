"""Explanations: the contributions to one prediction, their exactness and reliability."""

from __future__ import annotations

from nbdebug.tools.explain.result import Explanation as Explanation
from nbdebug.tools.explain.tool import explain as explain

__all__ = ["Explanation", "explain"]
