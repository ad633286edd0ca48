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

    A profiler that was active before is paused within the block and goes on after it.
    """
    profiler: Any = sys.getprofile()
    sys.setprofile(observe)
    try:
        yield
    finally:
        if profiler is None or callable(profiler):
            sys.setprofile(profiler)
        else:
            profiler.enable()  # cProfile: an object in C, which sys.setprofile would call


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
