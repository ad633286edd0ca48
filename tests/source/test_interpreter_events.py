"""Calls and lines are observed beside the profilers and debuggers of the user, which go on afterwards."""

from __future__ import annotations

import cProfile
import pstats
import sys
from types import FrameType
from typing import Any

import pytest

from nbdebug.source.interpreter_events import observe_calls, trace_lines


def called_while_observed() -> None:
    pass


def called_after() -> None:
    pass


def observed_names() -> list[str]:
    names: list[str] = []

    def observe(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    with observe_calls(observe):
        called_while_observed()
    return names


def test_without_a_profiler_none_is_left() -> None:
    assert "called_while_observed" in observed_names()
    assert sys.getprofile() is None


def test_a_profile_function_goes_on() -> None:
    names: list[str] = []

    def profile(frame: FrameType, *_: Any) -> None:
        names.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        observed = observed_names()
        called_after()
        remaining = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert "called_while_observed" in observed
    assert "called_after" in names
    assert remaining is profile


def test_cprofile_goes_on_and_counts_the_calls_that_follow() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        observed = observed_names()
        called_after()
    finally:
        profiler.disable()
    functions = {name for _, _, name in pstats.Stats(profiler).stats}  # type: ignore[attr-defined]
    assert "called_while_observed" in observed
    assert "called_after" in functions


def test_a_profiler_goes_on_after_an_exception() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with pytest.raises(ZeroDivisionError), observe_calls(lambda *_: None):
            raise ZeroDivisionError
        called_after()
    finally:
        profiler.disable()
    functions = {name for _, _, name in pstats.Stats(profiler).stats}  # type: ignore[attr-defined]
    assert "called_after" in functions


def test_lines_are_traced_and_a_debugger_goes_on() -> None:
    names: list[str] = []

    def debug(frame: FrameType, *_: Any) -> None:
        return None

    def trace(frame: FrameType, *_: Any) -> None:
        names.append(frame.f_code.co_name)

    previous = sys.gettrace()
    sys.settrace(debug)
    try:
        with trace_lines(trace):
            called_while_observed()
        remaining = sys.gettrace()
    finally:
        sys.settrace(previous)
    assert "called_while_observed" in names
    assert remaining is debug
