"""Tests of ListLines: the lines that store objects in lists, and that reorder items."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

from nbdebug.source.list_lines import ListLines

Items = list[tuple[Tensor, int]]


def sorts_parts(items: Items) -> Any:
    labels = [label for _, label in items]
    rows = sorted([row for row, _ in items], key=len)  # reorders
    return rows, labels


def sorts_in_place(items: Items) -> Any:
    labels, order = [], [*items]
    for _, label in items:
        labels.append(label)
    order.sort(key=lambda item: len(item[0]))  # reorders
    return [row for row, _ in order], labels


def by_length(items: Items) -> Items:
    return sorted(items, key=lambda item: len(item[0]))  # reorders


def rows_of(items: Items) -> list[Tensor]:
    return [row for row, _ in items]


def sorts_in_helper(items: Items) -> Any:
    return rows_of(by_length(items)), items


def sorts_in_argument(items: Items) -> Any:
    labels = [label for _, label in items]
    return rows_of(items[::-1]), labels  # reorders


def sorts_and_copies(items: Items) -> Any:
    rows = [row for row, _ in items]
    rows.reverse()  # reorders
    copied = list(rows)
    return copied


def sorts_twice(items: Items) -> Any:
    first = sorted(items, key=lambda item: len(item[0]))
    second = first[::-1]
    third = second[1:] + second[:1]
    return third


def keeps_order(items: Items) -> Any:
    rows = [row + 1 for row, _ in items]
    return torch.cat(rows), items[:2]


def numbers_only(items: Items) -> Any:
    labels = sorted(label for _, label in items)
    return labels


def make_items() -> Items:
    return [(torch.zeros(length), length) for length in (3, 1, 2)]


@pytest.mark.parametrize(
    ("function", "is_named"),
    [
        (sorts_parts, True),
        (sorts_in_place, True),
        (sorts_in_helper, True),
        (sorts_in_argument, True),
        (sorts_and_copies, True),
        (sorts_twice, False),
        (keeps_order, False),
        (numbers_only, False),
    ],
)
def test_reordering_line_is_the_only_one_that_makes_another_order(function: Callable[..., Any], is_named: bool) -> None:
    items = make_items()
    lines = ListLines(items)
    lines.run(lambda: function(items))
    line = lines.reordering_line
    assert (line is not None and line.text.endswith("# reorders")) == is_named


def appends(items: Items) -> Tensor:
    rows = []
    for row, _ in items:
        rows.append(row)  # stores
    return torch.cat(rows)


def comprehends(items: Items) -> Tensor:
    rows = [row for row, _ in items]  # stores
    return torch.cat(rows)


def appends_in_two_lines(items: Items) -> Tensor:
    rows = [items[0][0]]
    for row, _ in items[1:]:
        rows.append(row)
    return torch.cat(rows)


@pytest.mark.parametrize(
    ("function", "is_named"), [(appends, True), (comprehends, True), (appends_in_two_lines, False)]
)
def test_storing_line_is_the_only_one_that_stores_all_elements(function: Callable[..., Any], is_named: bool) -> None:
    items = make_items()
    lines = ListLines(items)
    lines.run(lambda: function(items))
    line = lines.storing_line(row for row, _ in items)
    assert (line is not None and line.text.endswith("# stores")) == is_named
    assert lines.storing_line([torch.zeros(1)]) is None
    assert lines.storing_line([]) is None


def test_run_under_a_debugger_traces_nothing_and_leaves_its_trace() -> None:
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return None

    items, original = make_items(), sys.gettrace()
    lines = ListLines(items)
    sys.settrace(trace)
    try:
        result = lines.run(lambda: sorts_parts(items))
        assert sys.gettrace() is trace
    finally:
        sys.settrace(original)
    assert len(result[0]) == 3
    assert lines.reordering_line is None


def test_run_ends_the_trace_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError):
        ListLines([]).run(lambda: 1 / 0)
    assert sys.gettrace() is None
