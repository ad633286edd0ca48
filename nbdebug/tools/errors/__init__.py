"""The error browser: from one number to the samples behind it."""

from nbdebug.tools.errors.result import Errors as Errors
from nbdebug.tools.errors.tool import errors as errors

__all__ = ["Errors", "errors"]
