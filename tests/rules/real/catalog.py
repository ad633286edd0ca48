"""The programs of this folder by name, each a function that gives the debugger of a sound training set-up."""

from __future__ import annotations

from collections.abc import Callable

from nbdebug.debugger import Debugger

PROGRAMS: dict[str, Callable[[], Debugger]] = {}


def healthy(build: Callable[[], Debugger]) -> Callable[[], Debugger]:
    """Enters a program under the name of its function."""
    PROGRAMS[build.__name__.replace("_", " ")] = build
    return build
