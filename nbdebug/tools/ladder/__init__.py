"""Complexity ladder: learners of growing capacity on the same data, and the user's model on parts of it."""

from __future__ import annotations

from nbdebug.tools.ladder.result import DataPoint, Ladder, Rung
from nbdebug.tools.ladder.tool import ladder

__all__ = ["DataPoint", "Ladder", "Rung", "ladder"]
