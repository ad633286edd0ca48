"""Tests of the comparison of the lines that two calls execute."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from nbdebug.source.executed_lines import find_differing_line


def branch(is_training: bool) -> int:
    value = 1
    if is_training:
        value = 2
    return value


def conditional_expression(is_training: bool) -> int:
    value = 3
    value = value / 2 if is_training else value
    return int(value)


def apply(transforms: list[Any], value: int) -> int:
    for transform in transforms:
        value = transform(value)
    return value


def double(value: int) -> int:
    return 2 * value


def optional_transform(is_training: bool) -> int:
    return apply([double] if is_training else [], 1)


def halved(value: int) -> int:
    value = value // 2
    return value


def augment(transform: Any, is_training: bool) -> int:
    value: int = transform(1)
    if is_training:
        value += 1
    return value


class Reader:
    def __call__(self, value: int) -> int:
        return value


class Doubler:
    def __call__(self, value: int) -> int:
        return 2 * value


def optional_object(is_training: bool) -> int:
    value = Reader()(1)
    if is_training:
        value = Doubler()(value)
    return value


def either_object(is_training: bool) -> int:
    chosen: Any = (Reader, Doubler)[is_training]
    return int(chosen()(1))


def same_code(is_training: bool) -> int:
    return 1 + int(is_training)


def raising(is_training: bool) -> int:
    return [1][5 * is_training]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (branch, "        value = 2"),
        (conditional_expression, "    value = value / 2 if is_training else value"),
        (optional_transform, "    for transform in transforms:"),
        (optional_object, "        value = Doubler()(value)"),
        (either_object, "        return value"),
        (same_code, None),
        (raising, None),
    ],
)
def test_find_differing_line_of_two_calls(function: Any, expected: str | None) -> None:
    line = find_differing_line(partial(function, True), partial(function, False))
    assert (line.text if line else None) == expected
    assert sys.gettrace() is None


def test_find_differing_line_under_a_debugger_leaves_its_trace_function() -> None:
    def trace(*_: Any) -> None: ...

    calls = SimpleNamespace(count=0)

    def count() -> None:
        calls.count += 1

    sys.settrace(trace)
    try:
        line, remaining = find_differing_line(count, count), sys.gettrace()
    finally:
        sys.settrace(None)
    assert (line, remaining, calls.count) == (None, trace, 0)


@pytest.mark.parametrize(("first", "expected"), [(True, "    value = value // 2"), (False, "    return 2 * value")])
def test_find_differing_line_of_functions_of_one_call_each(first: bool, expected: str | None) -> None:
    calls = [partial(apply, [change], 4) for change in (double, halved)]
    line = find_differing_line(*(calls if first else calls[::-1]))
    assert (line.text if line else None) == expected


def test_find_differing_line_prefers_the_own_function_of_the_second_call_to_an_augmentation_of_the_first() -> None:
    line = find_differing_line(partial(augment, double, True), partial(augment, halved, False))
    assert line is not None
    assert line.text == "    value = value // 2"
