"""Tests of values in JSON and text."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from nbdebug.formatting import format_value, to_json_value


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
def test_to_json_value_is_plain_json(value: object, expected: object) -> None:
    assert to_json_value(value) == expected
    json.dumps(to_json_value(value), allow_nan=False)


def test_to_json_value_truncates_long_texts_and_lists() -> None:
    assert to_json_value(list(range(60)))[-1] == "… 10 more"
    assert len(to_json_value("x" * 9_000)) < 2_100


def test_format_value_of_mapping_is_one_line() -> None:
    assert format_value({"a": [1, 0.123456, None, True]}) == "a: 1, 0.1235, None, True"
