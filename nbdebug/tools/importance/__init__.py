"""Feature importance of the whole model, with intervals, and its drift."""

from __future__ import annotations

from nbdebug.tools.importance.drift import Drift, drift
from nbdebug.tools.importance.result import Importance
from nbdebug.tools.importance.tool import importance

__all__ = ["Drift", "Importance", "drift", "importance"]
