"""Trace a call of the user's code: which line puts each object into a list, or returns it, and which reorders items."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

from nbdebug.source.interpreter_events import trace_lines
from nbdebug.source.location import SourceLine, get_running_line, is_user_code

_MAX_ELEMENTS = 64
_IMMUTABLE_TYPES = (int, float, bool, complex, str, bytes, type(None))  # equal values may be one object


class ListLines:
    """Traces the lines of a call that is passed some items, and observes the lists in its variables.

    Nothing is traced while a debugger traces this thread.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self._indices = _indices_by_id(items)
        self._stored: dict[int, SourceLine] = {}
        self._returned: dict[int, SourceLine] = {}
        self._orders: dict[tuple[int, ...], SourceLine] = {}
        self._ignored_ids = {id(item) for item in items} | {id(items)}
        self._references: list[Any] = [items]
        self._previous: dict[FrameType, int] = {}

    def run(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call."""
        if sys.gettrace() is not None:
            return call()
        try:
            with trace_lines(self._trace):
                return call()
        finally:
            self._previous.clear()

    def storing_line(self, elements: Iterable[object]) -> SourceLine | None:
        """Return the only line that put some objects into a list, or that returned them to the function that did.

        Return None if any of them was in no list.
        """
        stored = [id(element) for element in elements]
        lines = {self._returned.get(key, self._stored[key]) if key in self._stored else None for key in stored}
        return lines.pop() if len(lines) == 1 else None

    @property
    def reordering_line(self) -> SourceLine | None:
        """The only line that made a list of the items, or of parts of them, in another order."""
        return next(iter(self._orders.values())) if len(self._orders) == 1 else None

    def _trace(self, frame: FrameType, event: str, result: Any) -> Any:
        """Record what the line that ran before changed; the caller's line for the arguments of a call."""
        if not _is_user_code(frame):
            return None
        if event == "call" and frame.f_back is not None and _is_user_code(frame.f_back):
            self._observe(frame.f_locals.values(), get_running_line(frame.f_back))
        elif (number := self._previous.get(frame)) is not None:
            self._observe(frame.f_locals.values(), replace(get_running_line(frame), number=number))
        if event == "return":
            self._observe([result], get_running_line(frame))
            self._record_return(result, get_running_line(frame))
        self._previous[frame] = frame.f_lineno
        return self._trace

    def _observe(self, values: Iterable[Any], line: SourceLine) -> None:
        """Record what a line that has run changed in some lists."""
        for value in values:
            if type(value) not in (list, tuple) or id(value) in self._ignored_ids:
                continue
            elements = value[:_MAX_ELEMENTS]
            self._record_order(elements, line)
            for element in elements if type(value) is list else ():
                if id(element) not in self._stored and not isinstance(element, _IMMUTABLE_TYPES):
                    self._stored[id(element)] = line
                    self._references.append(element)

    def _record_return(self, result: Any, line: SourceLine) -> None:
        if not isinstance(result, _IMMUTABLE_TYPES) and id(result) not in self._returned:
            self._returned[id(result)] = line
            self._references.append(result)

    def _record_order(self, elements: Sequence[Any], line: SourceLine) -> None:
        order = tuple([self._indices.get(id(element), -1) for element in elements])
        is_complete = len(order) > 1 and min(order) >= 0 and len({*order}) == len(order)
        if is_complete and list(order) != sorted(order):
            self._orders.setdefault(order, line)


def _is_user_code(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return is_user_code(file)


def _indices_by_id(items: Sequence[Any]) -> dict[int, int]:
    """Return the index of each item by its id and by those of its parts, if no other item shares them."""
    indices: dict[int, int] = {}
    for index, item in enumerate(items):
        parts = item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else ()
        for value in (item, *parts):
            if not isinstance(value, _IMMUTABLE_TYPES):
                indices[id(value)] = index if indices.get(id(value), index) == index else -1
    return indices
