"""The line of the user's code at which a wrong value first appears while a call runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

from nbdebug.source.interpreter_events import trace_lines
from nbdebug.source.location import SourceLine, get_running_line, is_debugger_code, is_library_code

_MAX_ITEMS, _MAX_SECONDS = 64, 5.0  # a long loop beside large arrays is not followed to its end


def find_appearance(call: Callable[[], object], is_wrong: Callable[[Any], bool]) -> SourceLine | None:
    """Return the line that makes the first wrong value, in whichever function of the user's it runs.

    The variables of each function are looked at after each of its lines, and what it returns. None if there is none, if
    the call raises, or if a debugger traces this thread.
    """
    if sys.gettrace() is not None:
        return None
    trace = _AppearanceTrace(is_wrong)
    try:
        with trace_lines(trace.observe):
            call()
    except Exception:  # the code is the user's, and a finding is worth more than its line
        return None
    return trace.line


class _AppearanceTrace:
    def __init__(self, is_wrong: Callable[[Any], bool]) -> None:
        self.is_wrong = is_wrong
        self.line: SourceLine | None = None
        self.previous: dict[FrameType, int] = {}
        self.ends_at = time.monotonic() + _MAX_SECONDS

    def observe(self, frame: FrameType, event: str, result: Any) -> Any:
        """Look at the variables of a user's function, before each line and at its end."""
        if self.line is not None or time.monotonic() > self.ends_at or not _is_users(frame):
            return None
        values = [*frame.f_locals.values(), *([result] if event == "return" else [])]
        if any(map(self.is_wrong, _flattened(values))):
            self.line = self._running_line(frame, event)
        self.previous[frame] = frame.f_lineno
        return self.observe

    def _running_line(self, frame: FrameType, event: str) -> SourceLine | None:
        """Return the line that has just run; that of a wrong argument is the line of the caller."""
        if event == "call":
            return get_running_line(frame.f_back) if frame.f_back is not None and _is_users(frame.f_back) else None
        number = frame.f_lineno if event == "return" else self.previous.get(frame, frame.f_lineno)
        return replace(get_running_line(frame), number=number)


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not is_library_code(file) and not is_debugger_code(file)


def _flattened(values: list[Any]) -> Iterator[Any]:
    """Yield values, and those in lists, tuples and dictionaries of a few items."""
    for value in values:
        items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
        yield value
        if items is not None and len(items) <= _MAX_ITEMS:
            yield from items
