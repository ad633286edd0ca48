"""Whether training can be repeated: two runs from the same state, their first difference, and its source."""

from __future__ import annotations

from nbdebug.tools.repeatable.result import Repeatable as Repeatable
from nbdebug.tools.repeatable.tool import repeatable as repeatable

__all__ = ["Repeatable", "repeatable"]
