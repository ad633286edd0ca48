"""Explanations: why a model said that of a sample, how exact the answer is, and whether to believe it."""

from nbdebug.tools.explain.result import Explanation as Explanation
from nbdebug.tools.explain.tool import explain as explain

__all__ = ["Explanation", "explain"]
