"""The error browser: from an error count to the samples behind it."""

from __future__ import annotations

from nbdebug.tools.errors.result import Errors as Errors
from nbdebug.tools.errors.tool import errors as errors

__all__ = ["Errors", "errors"]
