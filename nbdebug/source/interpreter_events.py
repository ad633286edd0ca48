"""Observe the calls and the lines that this thread runs, beside a profiler or a debugger of the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def observe_calls(observe: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Pass each event of ``sys.setprofile`` within the block to a function.

    A profile function, or cProfile before Python 3.12, is paused within the block and goes on after it.
    """
    profiler: Any = sys.getprofile()
    sys.setprofile(observe)
    try:
        yield
    finally:
        is_in_c = hasattr(profiler, "enable") and not callable(profiler)  # as in cProfile
        if is_in_c:
            profiler.enable()
        else:
            sys.setprofile(profiler if callable(profiler) else None)


@contextmanager
def trace_lines(trace: Callable[[FrameType, str, Any], Any]) -> Iterator[None]:
    """Pass each event of ``sys.settrace`` within the block to a function.

    A debugger or a coverage tool that was active before does not see the block and goes on after it.
    """
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)
