"""Numbers on their way to a page."""

from __future__ import annotations

import json
import math
from array import array

import numpy as np
import pytest

from nbdebug.formatting import format_value, to_json_value
from nbdebug.views.line_chart import LineChart, pack_rows, sparkline, thin_indices
from nbdebug.views.page import to_script_json

from . import samples


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.23456, 1.235),
        (1e-9, 1e-9),
        (123456.0, 123456),
        (math.nan, None),
        (-math.inf, None),
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        ((1, "a"), [1, "a"]),
        ({1: {2.0: None}}, {"1": {"2.0": None}}),
        (True, True),
        ({"b", "a"}, ["a", "b"]),
        (complex(1, 2), "(1+2j)"),
    ],
)
def test_plain_is_json(value: object, expected: object) -> None:
    assert to_json_value(value) == expected
    json.dumps(to_json_value(value), allow_nan=False)


def test_long_texts_and_lists_are_cut() -> None:
    assert to_json_value(list(range(60)))[-1] == "… 10 more"
    assert len(to_json_value("x" * 9_000)) < 2_100


def test_short_says_a_value_in_one_line() -> None:
    assert format_value({"a": [1, 0.123456, None, True]}) == "a: 1, 0.1235, None, True"


def test_thin_keeps_ends_extremes_and_gaps() -> None:
    y = [math.sin(i / 500) for i in range(10_000)]
    y[1234], y[7777], y[5000] = 99.0, -99.0, math.nan
    keep = thin_indices(y, 300)
    assert len(keep) <= 300
    assert {0, 1234, 5000, 7777, 9_999} <= set(keep)
    assert keep == sorted(keep)


def test_pack_tells_missing_from_not_finite() -> None:
    sent = array("f")
    sent.frombytes(pack_rows([{"a": 1.0, "b": math.nan}, {"a": 2.0}], ["a", "b"]))
    assert [sent[0], sent[1], sent[2]] == [1.0, math.inf, 2.0]
    assert math.isnan(sent[3])


def test_sketch_follows_the_values() -> None:
    assert sparkline([0, 1, 2, 3]) == "▁▃▆█"
    assert sparkline([math.nan]) == ""


def test_script_cannot_be_closed_by_data() -> None:
    assert "<" not in to_script_json({"a": samples.NASTY})
    assert json.loads(to_script_json({"a": samples.NASTY})) == {"a": samples.NASTY}


def test_curves_state_counts_gaps_and_keeps_steps_exact() -> None:
    view = LineChart(series={"loss": [(123_456, 1.0), (123_457, math.nan), (math.nan, 2.0)]})
    assert view.state()["lines"] == [{"name": "loss", "x": [123456, 123457], "y": [1, None], "bad": 1}]


def test_marks_and_limits_that_are_nowhere_are_left_out() -> None:
    head = LineChart(marks=[(math.nan, "a"), (1, "b")], limits=[(math.inf, "c")]).head()
    assert head == {"status": "", "marks": [{"at": 1, "text": "b"}], "limits": []}


def test_rows_begin_new_lines_and_leave_others_alone() -> None:
    view = LineChart(x_label="epoch")
    view.append({"epoch": 0, "loss": 1.0})
    view.append({"epoch": 1, "loss": 0.5, "accuracy": 0.9})
    assert [(line["name"], line["x"]) for line in view.state()["lines"]] == [("loss", [0, 1]), ("accuracy", [1])]
    assert view.count == 2


def test_two_findings_that_explain_each_other_hang_only_once() -> None:
    view = samples.findings()
    first, second = (
        {**one, "code": code, "explains": explains}
        for one, code, explains in zip(view.findings, "AB", "BA", strict=False)
    )
    view.findings = [first, second]
    assert [card["under"] for card in view.state()["findings"]] == [None, 0]


def test_overfit_without_scores_still_has_a_state() -> None:
    view = samples.overfit()
    view._stored_rows = [{"attempt": 0, "step": 0, "loss": math.nan}]
    assert view.state()["frames"] == []
    assert "not run" in view.html()
