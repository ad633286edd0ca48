"""The search for weak slices: silent on noise, and right about what was planted."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.table import PredictionTable
from nbdebug.slices import search_slices

from .planted import planted


class Losses(PredictionTable):
    """A table of losses alone."""

    def __len__(self) -> int:
        return len(self.columns["loss"])


@pytest.mark.parametrize("alike", [False, True])
def test_noise_has_no_slices(alike: bool) -> None:
    runs = [planted(lambda _: 0.2, 300, seed=seed, alike=alike) for seed in range(100)]
    assert sum(bool(search_slices(one, least=0).slices) for one in runs) <= 5


def test_noise_in_losses_has_no_slices() -> None:
    found = 0
    for seed in range(100):
        table = planted(lambda _: 0, 300, seed=seed)
        loss = np.random.default_rng(seed).exponential(size=300) ** 2
        found += bool(search_slices(Losses(columns={**table.columns, "loss": loss}), least=0).slices)
    assert found <= 5


def test_a_planted_range_is_found_with_its_bounds() -> None:
    hits = false = 0
    for seed in range(20):
        found = search_slices(planted(lambda one: np.where(one["x1"] < -1, 0.4, 0.1), seed=seed)).slices
        hits += bool(found)
        false += [one.conditions[0].column for one in found] not in ([], ["x1"])
        if found:
            assert found[0].conditions[0].low is None
            assert found[0].conditions[0].high == pytest.approx(-1, abs=0.4)
    assert hits >= 19
    assert false <= 2


def test_a_planted_value_is_found() -> None:
    result = search_slices(planted(lambda one: np.where(one["c0"] == "d", 0.4, 0.1)))
    assert [one.description for one in result.slices] == ["c0 = d"]


def test_two_features_that_only_together_are_bad_are_found_as_one_slice() -> None:
    table = planted(lambda one: np.where((one["x0"] > 0.8) & (one["c1"] == "b"), 0.6, 0.1), 6000)
    result = search_slices(table)
    (found,) = result.slices
    assert {one.column for one in found.conditions} == {"x0", "c1"}
    assert found.description.startswith("x0 ≥ 0.8")
    assert found.description.endswith("and c1 = b")


def test_a_second_feature_that_adds_nothing_is_left_out() -> None:
    table = planted(lambda one: np.where(one["c0"] == "b", 0.5, 0.1), 6000)
    assert [one.description for one in search_slices(table).slices] == ["c0 = b"]


def test_independent_slices_are_all_found() -> None:
    table = planted(lambda one: 0.05 + 0.3 * (one["c0"] == "c") + 0.3 * (one["x3"] > 1), 6000)
    columns = [one.conditions[0].column for one in search_slices(table).slices]
    assert sorted(columns[:2]) == ["c0", "x3"]


def test_a_feature_that_hangs_together_with_the_cause_is_explained_by_it() -> None:
    table = planted(lambda one: np.where(one["c0"] == "b", 0.5, 0.1), 4000)
    rng = np.random.default_rng(1)
    shadow = np.where(rng.random(4000) < 0.8, table.columns["c0"], "a")
    assert [one.description for one in search_slices(table.with_columns({"shadow": shadow})).slices] == ["c0 = b"]


def test_the_numbers_are_those_of_the_rows_that_the_query_finds() -> None:
    table = planted(lambda one: np.where(one["x1"] < -1, 0.5, 0.1), 3000)
    (one,) = search_slices(table).slices
    rows = table.matching_rows(one.query)
    rest = np.setdiff1d(np.arange(3000), rows)
    assert one.support == len(rows)
    assert one.value == pytest.approx(1 - table.right[rows].mean())
    assert one.rest == pytest.approx(1 - table.right[rest].mean())
    assert one.low < one.effect < one.high
    assert one.p <= one.q <= 0.05
    assert one.relative == pytest.approx(one.value / one.rest)
    with pytest.raises(FrozenInstanceError):
        one.support = 0


def test_losses_are_searched_where_there_is_no_right() -> None:
    table = planted(lambda _: 0, 3000)
    rng = np.random.default_rng(0)
    loss = rng.exponential(size=3000) * np.where(table.columns["c0"] == "c", 3, 1)
    result = search_slices(Losses(columns={**table.columns, "loss": loss}))
    (one,) = result.slices
    assert (one.description, result.measure) == ("c0 = c", "loss")
    assert one.value == pytest.approx(loss[table.columns["c0"] == "c"].mean())
    assert one.low < one.effect < one.high


def test_one_huge_loss_makes_no_slice() -> None:
    table = planted(lambda _: 0, 1000)
    loss = np.random.default_rng(0).exponential(size=1000)
    loss[table.columns["x0"].argmax()] = 1e9
    assert search_slices(Losses(columns={**table.columns, "loss": loss})).slices == ()


def test_what_is_computed_from_the_prediction_is_no_feature() -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, 500)
    result = search_slices(ClassificationTable.from_arrays(rng.normal(size=(500, 3)), target))
    assert result.features == ("target",)


def test_a_class_may_be_the_slice() -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 5, 2000)
    said = np.where((target == 3) & (rng.random(2000) < 0.5), 4, target)
    table = ClassificationTable.from_arrays(said, target)
    (one,) = search_slices(table).slices
    assert one.description == "true class 3"
    assert np.array_equal(table.matching_rows(one.query), np.flatnonzero(target == 3))


def test_missing_values_are_a_slice_of_their_own() -> None:
    table = planted(lambda one: np.where(one["x0"] > 1, 0.6, 0.1), 3000)
    values = np.where(table.columns["x0"] > 1, np.nan, table.columns["x1"])
    result = search_slices(table.replace(columns={"measured": values}))
    assert [one.description for one in result.slices] == ["measured is missing"]
    assert np.array_equal(
        table.with_columns({"measured": values}).matching_rows(result.slices[0].query), np.flatnonzero(np.isnan(values))
    )


def test_rows_that_cannot_be_judged_are_left_out() -> None:
    table = planted(lambda one: np.where(one["c0"] == "b", 0.5, 0.1), 3000)
    target = table.target.copy()
    target[::3] = -1
    result = search_slices(table.replace(target=target))
    assert "1000 rows without a target" in result.notes[0]
    assert result.slices[0].support == ((target >= 0) & (table.columns["c0"] == "b")).sum()


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_all_right_and_all_wrong_have_no_slices(chance: float) -> None:
    assert search_slices(planted(lambda _: chance, 500)).slices == ()


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_few_rows_have_no_slices(rows: int) -> None:
    result = search_slices(planted(lambda _: 0.5, rows))
    assert result.slices == ()
    assert "None of" in str(result)


def test_a_table_that_says_nothing_is_refused() -> None:
    with pytest.raises(SetupError, match="neither correct and wrong rows"):
        search_slices(Losses(columns={"x": np.zeros(3)}))


def test_columns_that_make_no_groups_do_no_harm() -> None:
    table = planted(lambda one: np.where(one["c0"] == "b", 0.5, 0.1), 1000)
    odd = {
        "name": np.array([f"row {i}" for i in range(1000)], object),
        "same": np.ones(1000),
        "nothing": np.full(1000, np.nan),
        "infinite": np.where(np.arange(1000) % 2, np.inf, -np.inf),
        "mixed": np.array([None, 1, "x", np.nan] * 250, object),
        "flag": np.arange(1000) % 2 == 0,
        "when": np.datetime64("2026-01-01") + np.arange(1000) % 3,
    }
    assert [one.description for one in search_slices(table.with_columns(odd)).slices] == ["c0 = b"]


def test_a_large_table_is_searched_in_part_and_measured_in_full() -> None:
    table = planted(lambda one: np.where(one["c0"] == "b", 0.4, 0.1), 30_000)
    result = search_slices(table, searched=5000)
    assert result.searched == 5000
    assert "5000 random rows of 30000" in result.notes[0]
    assert result.slices[0].support == (table.columns["c0"] == "b").sum()


def test_thousands_of_slices_are_tried_where_there_are_twenty_columns() -> None:
    table = planted(lambda one: np.where(one["c0"] == "b", 0.2, 0.1), 100_000, numbers=15, categories=5)
    assert search_slices(table).tried > 10_000


def test_the_result_can_be_read_and_tabulated() -> None:
    result = search_slices(planted(lambda one: np.where(one["c0"] == "b", 0.5, 0.1), 2000))
    assert "1 weak slice of" in str(result)
    assert "error rate" in str(result)
    frame = result.to_frame()
    assert frame["slice"].tolist() == ["c0 = b"]
    assert result.plot().get_title() == result.headline
