"""Tests of the conditions of slices: descriptions, bounds, levels and queries."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nbdebug.predictions.table import Query, TextCache, matching_mask
from nbdebug.slices.row_scores import COARSE_QUANTILES, FINE_QUANTILES, bin_by_quantiles, levels_by_value
from nbdebug.slices.slice import Condition, build_query, query_request, separating_bounds


@pytest.mark.parametrize(
    ("condition", "description"),
    [
        (Condition("brightness", high=0.21), "brightness ≤ 0.21"),
        (Condition("age", low=60), "age ≥ 60"),
        (Condition("age", low=20, high=30), "age 20 to 30"),
        (Condition("rooms", low=3, high=3), "rooms = 3"),
        (Condition("sex", values=("male",)), "sex = male"),
        (Condition("age", values=("nan",)), "age is missing"),
        (Condition("deck", values=("A", "B", "C", "D")), "deck is one of 4 rare values"),
        (Condition("target", values=("7",), cells=((7, 0), (7, 1))), "true class 7"),
    ],
)
def test_condition_description(condition: Condition, description: str) -> None:
    assert condition.description == description


def test_build_query_and_query_request_of_two_conditions() -> None:
    conditions = (Condition("age", high=2.5), Condition("sex", values=("male",)))
    assert build_query(conditions) == Query(ranges={"age": (None, 2.5)}, values={"sex": ("male",)})
    assert query_request(conditions) == {"ranges": {"age": (None, 2.5)}, "values": {"sex": ("male",)}}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1, 12345, 1e20])
@pytest.mark.parametrize("relative_gap", [1e-1, 1e-6, 1e-7])
def test_separating_bounds_split_neighboring_values_in_few_digits(
    dtype: type, scale: float, relative_gap: float
) -> None:
    rng = np.random.default_rng(0)
    for below in dtype(scale) * rng.normal(size=50).astype(dtype):
        above = np.nextafter(below + abs(below) * dtype(relative_gap), dtype(np.inf))
        low, high = separating_bounds(below, above, np.dtype(dtype))
        values = np.array([below, above], dtype)
        assert (values <= low).tolist() == [True, False]
        assert (values >= high).tolist() == [False, True]
        assert len(f"{low:.17g}") <= 24


def test_separating_bounds_of_wide_gap_are_round_number() -> None:
    assert separating_bounds(np.float32(0.2034), np.float32(0.2187), np.dtype(np.float32)) == (0.21, 0.21)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=1000).astype(np.float32),
        np.random.default_rng(0).integers(0, 6, 1000),
        np.random.default_rng(0).integers(0, 10**12, 1000),
        np.random.default_rng(0).integers(0, 255, 1000).astype(np.uint8),
        np.where(np.random.default_rng(0).random(1000) < 0.3, np.nan, np.random.default_rng(1).normal(size=1000)),
        np.random.default_rng(0).choice(["a", "b", "", "None"], 1000),
        np.random.default_rng(0).choice([True, False], 1000),
        np.array([1.0, None, "x", np.nan] * 250, object),
    ],
    ids=["real", "six integers", "large integers", "uint8", "real with missing", "text", "bool", "mixed"],
)
@pytest.mark.parametrize("quantiles", [FINE_QUANTILES, COARSE_QUANTILES])
def test_query_of_each_level_matches_its_rows(values: np.ndarray, quantiles: tuple[float, ...]) -> None:
    numeric = values.dtype.kind in "fiu"
    columns = {"x": values}
    feature = bin_by_quantiles("x", values, quantiles) if numeric else levels_by_value("x", values, 1)
    assert len(feature.levels) > 1
    for level, condition in enumerate(feature.levels):
        query = build_query([condition])
        parsed_query = Query.from_request(json.loads(json.dumps(query_request([condition]))))
        for request in (query, parsed_query):
            assert np.array_equal(matching_mask(columns, request, 1000, TextCache()), feature.codes == level)


def test_levels_by_value_missing_values_form_one_level() -> None:
    values = np.array(["a", None, np.nan, "a"] * 30, object)
    feature = levels_by_value("x", values, 20)
    assert [level.description for level in feature.levels] == ["x = a", "x is missing"]
    for first in (0, 1, 2):  # the first missing value names the level
        mask = matching_mask({"x": values[first:]}, build_query([feature.levels[1]]), 120 - first, TextCache())
        assert mask.sum() == 60 - max(0, first - 1)


def test_levels_by_value_combines_rare_values() -> None:
    values = np.array(["a"] * 50 + ["b"] * 40 + ["c"] * 3 + ["d"] * 2)
    feature = levels_by_value("x", values, 20)
    assert [level.values for level in feature.levels] == [("a",), ("b",), ("c", "d")]
    too_many = levels_by_value("x", np.array(["a"] * 50 + [f"row {i}" for i in range(60)]), 20)
    assert too_many.levels[-1] is None
