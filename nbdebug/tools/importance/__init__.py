"""Which inputs the whole model goes by, how sure that is, and how it changes."""

from nbdebug.tools.importance.drift import Drift, drift
from nbdebug.tools.importance.result import Importance
from nbdebug.tools.importance.tool import importance

__all__ = ["Drift", "Importance", "drift", "importance"]
