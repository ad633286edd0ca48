"""Find the line of the user's code at which some values change while a call runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any

from nbdebug.source.interpreter_events import trace_lines
from nbdebug.source.location import SourceLine, get_line_from_frame, is_user_code


def find_changing_line(call: Callable[[], object], fingerprint: Callable[[], Hashable]) -> SourceLine | None:
    """Return the line of the innermost user's function after which a fingerprint is another one for the first time."""
    trace = _ChangeTrace(fingerprint)
    with trace_lines(trace.on_event):
        call()
    return trace.line


class _ChangeTrace:
    """Compares a fingerprint at each event of the user's code with the one before it."""

    def __init__(self, fingerprint: Callable[[], Hashable]) -> None:
        self.line: SourceLine | None = None
        self._fingerprint, self._first = fingerprint, fingerprint()
        self._running: dict[FrameType, int] = {}

    def on_event(self, frame: FrameType, event: str, _: Any) -> Any:
        """Attribute a change to the line that ran before the event: for a call, to the line of the caller."""
        code = frame.f_code
        if self.line is not None or not is_user_code(code.co_filename):
            return None
        if self._fingerprint() != self._first:
            number = self._running.get(frame, frame.f_lineno)
            is_call = event == "call"
            self.line = (
                get_line_from_frame(frame.f_back) if is_call else SourceLine(code.co_filename, number, code.co_name)
            )
            self._running.clear()
            return None
        self._running[frame] = frame.f_lineno
        if event == "return":
            del self._running[frame]
        return self.on_event
