"""The data under the model: a profile of what enters it, drift, duplicates and suspect labels, with their power."""

from __future__ import annotations

from nbdebug.tools.data.result import DataProfile as DataProfile
from nbdebug.tools.data.tool import data as data

__all__ = ["DataProfile", "data"]
