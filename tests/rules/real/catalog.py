"""The healthy programs of this folder by name; each builds the debugger of a sound training setup."""

from __future__ import annotations

from collections.abc import Callable

from nbdebug.debugger import Debugger

PROGRAMS: dict[str, Callable[[], Debugger]] = {}


def healthy(build: Callable[[], Debugger]) -> Callable[[], Debugger]:
    """Register a program under the name of its function."""
    PROGRAMS[build.__name__.replace("_", " ")] = build
    return build
