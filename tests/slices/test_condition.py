"""Conditions: words, and cuts that part the values that they should."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nbdebug.predictions.table import Query, TextCache, matching_mask
from nbdebug.slices.row_scores import COARSE_QUANTILES, FINE_QUANTILES, bin_by_quantiles, levels_by_value
from nbdebug.slices.slice import Condition, build_query, query_request, separating_bounds


@pytest.mark.parametrize(
    ("condition", "words"),
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
def test_words(condition: Condition, words: str) -> None:
    assert condition.description == words


def test_conditions_are_a_query() -> None:
    both = (Condition("age", high=2.5), Condition("sex", values=("male",)))
    assert build_query(both) == Query(ranges={"age": (None, 2.5)}, values={"sex": ("male",)})
    assert query_request(both) == {"ranges": {"age": (None, 2.5)}, "values": {"sex": ("male",)}}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1, 12345, 1e20])
@pytest.mark.parametrize("near", [1e-1, 1e-6, 1e-7])
def test_a_cut_parts_neighbors_in_few_digits(kind: type, scale: float, near: float) -> None:
    rng = np.random.default_rng(0)
    for below in kind(scale) * rng.normal(size=50).astype(kind):
        above = np.nextafter(below + abs(below) * kind(near), kind(np.inf))
        low, high = separating_bounds(below, above, np.dtype(kind))
        values = np.array([below, above], kind)
        assert (values <= low).tolist() == [True, False]
        assert (values >= high).tolist() == [False, True]
        assert len(f"{low:.17g}") <= 24


def test_a_wide_gap_is_cut_by_a_round_number() -> None:
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
)
@pytest.mark.parametrize("shares", [FINE_QUANTILES, COARSE_QUANTILES])
def test_a_query_finds_the_rows_of_each_level(values: np.ndarray, shares: tuple[float, ...]) -> None:
    number = values.dtype.kind in "fiu"
    columns = {"x": values}
    feature = bin_by_quantiles("x", values, shares) if number else levels_by_value("x", values, 1)
    assert len(feature.levels) > 1
    for level, condition in enumerate(feature.levels):
        query = build_query([condition])
        through = Query.from_request(json.loads(json.dumps(query_request([condition]))))
        for one in (query, through):
            assert np.array_equal(matching_mask(columns, one, 1000, TextCache()), feature.codes == level)


def test_a_missing_value_has_many_names_and_is_one_level() -> None:
    values = np.array(["a", None, np.nan, "a"] * 30, object)
    feature = levels_by_value("x", values, 20)
    assert [one.description for one in feature.levels] == ["x = a", "x is missing"]
    for first in (0, 1, 2):  # the first missing one decides what a table calls them
        found = matching_mask({"x": values[first:]}, build_query([feature.levels[1]]), 120 - first, TextCache())
        assert found.sum() == 60 - max(0, first - 1)


def test_rare_values_are_put_together() -> None:
    values = np.array(["a"] * 50 + ["b"] * 40 + ["c"] * 3 + ["d"] * 2)
    feature = levels_by_value("x", values, 20)
    assert [one.values for one in feature.levels] == [("a",), ("b",), ("c", "d")]
    many = levels_by_value("x", np.array(["a"] * 50 + [f"row {i}" for i in range(60)]), 20)
    assert many.levels[-1] is None
