"""Crashes: what met at the operation that raised, read from a traceback."""

from __future__ import annotations

from nbdebug.crashes.crash import Crash, read_crash

__all__ = ["Crash", "read_crash"]
