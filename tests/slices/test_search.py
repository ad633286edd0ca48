"""Tests of search_slices(): no slices in noise, and the slices of synthetic tables."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.table import PredictionTable
from nbdebug.slices import Slices, search_slices
from tests.slices.synthetic_tables import make_table


class LossTable(PredictionTable):
    """A table with losses and without targets."""

    def __len__(self) -> int:
        return len(self.columns["loss"])


def make_weak_category_table(rows: int, error_rate: float = 0.5, **options: int) -> ClassificationTable:
    """A table with a higher error rate where c0 is b."""
    return make_table(lambda columns: np.where(columns["c0"] == "b", error_rate, 0.1), rows, **options)


def descriptions(result: Slices) -> list[str]:
    return [slice_.description for slice_ in result.slices]


@pytest.mark.parametrize("correlated", [False, True])
def test_search_slices_of_random_errors_rarely_finds_any(correlated: bool) -> None:
    tables = [make_table(lambda _: 0.2, 300, seed=seed, correlated=correlated) for seed in range(100)]
    assert sum(bool(search_slices(table, least=0).slices) for table in tables) <= 5


def test_search_slices_of_random_losses_rarely_finds_any() -> None:
    count = 0
    for seed in range(100):
        table = make_table(lambda _: 0, 300, seed=seed)
        loss = np.random.default_rng(seed).exponential(size=300) ** 2
        count += bool(search_slices(LossTable(columns={**table.columns, "loss": loss}), least=0).slices)
    assert count <= 5


def test_search_slices_finds_numeric_range_with_its_bound() -> None:
    detections = wrong_detections = 0
    for seed in range(20):
        slices = search_slices(make_table(lambda columns: np.where(columns["x1"] < -1, 0.4, 0.1), seed=seed)).slices
        detections += bool(slices)
        wrong_detections += [slice_.conditions[0].column for slice_ in slices] not in ([], ["x1"])
        if slices:
            assert slices[0].conditions[0].low is None
            assert slices[0].conditions[0].high == pytest.approx(-1, abs=0.4)
    assert detections >= 19
    assert wrong_detections <= 2


def test_search_slices_finds_category() -> None:
    result = search_slices(make_table(lambda columns: np.where(columns["c0"] == "d", 0.4, 0.1)))
    assert descriptions(result) == ["c0 = d"]


def test_search_slices_finds_interaction_of_two_features_as_one_slice() -> None:
    table = make_table(lambda columns: np.where((columns["x0"] > 0.8) & (columns["c1"] == "b"), 0.6, 0.1), 6000)
    result = search_slices(table)
    (interaction,) = result.slices
    assert {condition.column for condition in interaction.conditions} == {"x0", "c1"}
    assert interaction.description.startswith("x0 ≥ 0.8")
    assert interaction.description.endswith("and c1 = b")


def test_search_slices_omits_irrelevant_second_feature() -> None:
    table = make_weak_category_table(6000)
    assert descriptions(search_slices(table)) == ["c0 = b"]


def test_search_slices_finds_all_independent_slices() -> None:
    table = make_table(lambda columns: 0.05 + 0.3 * (columns["c0"] == "c") + 0.3 * (columns["x3"] > 1), 6000)
    columns = [slice_.conditions[0].column for slice_ in search_slices(table).slices]
    assert sorted(columns[:2]) == ["c0", "x3"]


def test_search_slices_omits_feature_correlated_with_cause() -> None:
    table = make_weak_category_table(4000)
    rng = np.random.default_rng(1)
    correlated = np.where(rng.random(4000) < 0.8, table.columns["c0"], "a")
    assert descriptions(search_slices(table.with_columns({"correlated": correlated}))) == ["c0 = b"]


def test_slice_statistics_match_rows_of_its_query() -> None:
    table = make_table(lambda columns: np.where(columns["x1"] < -1, 0.5, 0.1), 3000)
    (slice_,) = search_slices(table).slices
    rows = table.matching_rows(slice_.query)
    other_rows = np.setdiff1d(np.arange(3000), rows)
    assert slice_.support == len(rows)
    assert slice_.value == pytest.approx(1 - table.right[rows].mean())
    assert slice_.rest == pytest.approx(1 - table.right[other_rows].mean())
    assert slice_.low < slice_.effect < slice_.high
    assert slice_.p <= slice_.q <= 0.05
    assert slice_.relative == pytest.approx(slice_.value / slice_.rest)
    with pytest.raises(FrozenInstanceError):
        slice_.support = 0


def test_search_slices_of_table_with_losses_only_compares_losses() -> None:
    table = make_table(lambda _: 0, 3000)
    rng = np.random.default_rng(0)
    loss = rng.exponential(size=3000) * np.where(table.columns["c0"] == "c", 3, 1)
    result = search_slices(LossTable(columns={**table.columns, "loss": loss}))
    (slice_,) = result.slices
    assert (slice_.description, result.measure) == ("c0 = c", "loss")
    assert slice_.value == pytest.approx(loss[table.columns["c0"] == "c"].mean())
    assert slice_.low < slice_.effect < slice_.high


def test_search_slices_with_single_huge_loss_finds_none() -> None:
    table = make_table(lambda _: 0, 1000)
    loss = np.random.default_rng(0).exponential(size=1000)
    loss[table.columns["x0"].argmax()] = 1e9
    assert search_slices(LossTable(columns={**table.columns, "loss": loss})).slices == ()


def test_search_slices_features_exclude_columns_computed_from_prediction() -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, 500)
    result = search_slices(ClassificationTable.from_arrays(rng.normal(size=(500, 3)), target))
    assert result.features == ("target",)


def test_search_slices_finds_class() -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 5, 2000)
    prediction = np.where((target == 3) & (rng.random(2000) < 0.5), 4, target)
    table = ClassificationTable.from_arrays(prediction, target)
    (slice_,) = search_slices(table).slices
    assert slice_.description == "true class 3"
    assert np.array_equal(table.matching_rows(slice_.query), np.flatnonzero(target == 3))


def test_search_slices_finds_missing_values() -> None:
    table = make_table(lambda columns: np.where(columns["x0"] > 1, 0.6, 0.1), 3000)
    values = np.where(table.columns["x0"] > 1, np.nan, table.columns["x1"])
    result = search_slices(table.replace(columns={"measured": values}))
    assert descriptions(result) == ["measured is missing"]
    assert np.array_equal(
        table.with_columns({"measured": values}).matching_rows(result.slices[0].query), np.flatnonzero(np.isnan(values))
    )


def test_search_slices_excludes_rows_without_target() -> None:
    table = make_weak_category_table(3000)
    target = table.target.copy()
    target[::3] = -1
    result = search_slices(table.replace(target=target))
    assert "1000 rows without a target" in result.notes[0]
    assert result.slices[0].support == ((target >= 0) & (table.columns["c0"] == "b")).sum()


@pytest.mark.parametrize("error_rate", [0.0, 1.0])
def test_search_slices_of_all_correct_or_all_wrong_finds_none(error_rate: float) -> None:
    assert search_slices(make_table(lambda _: error_rate, 500)).slices == ()


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_search_slices_of_few_rows_finds_none(rows: int) -> None:
    result = search_slices(make_table(lambda _: 0.5, rows))
    assert result.slices == ()
    assert "None of" in str(result)


def test_search_slices_without_correctness_or_loss_raises_setup_error() -> None:
    with pytest.raises(SetupError, match="neither correct and wrong rows"):
        search_slices(LossTable(columns={"x": np.zeros(3)}))


def test_search_slices_ignores_columns_without_groups() -> None:
    table = make_weak_category_table(1000)
    columns = {
        "name": np.array([f"row {i}" for i in range(1000)], object),
        "same": np.ones(1000),
        "nothing": np.full(1000, np.nan),
        "infinite": np.where(np.arange(1000) % 2, np.inf, -np.inf),
        "mixed": np.array([None, 1, "x", np.nan] * 250, object),
        "flag": np.arange(1000) % 2 == 0,
        "when": np.datetime64("2026-01-01") + np.arange(1000) % 3,
    }
    assert descriptions(search_slices(table.with_columns(columns))) == ["c0 = b"]


def test_search_slices_of_large_table_searches_sample_and_measures_all_rows() -> None:
    table = make_weak_category_table(30_000, 0.4)
    result = search_slices(table, searched=5000)
    assert result.searched == 5000
    assert "5000 random rows of 30000" in result.notes[0]
    assert result.slices[0].support == (table.columns["c0"] == "b").sum()


def test_search_slices_of_twenty_columns_tries_over_ten_thousand_slices() -> None:
    table = make_weak_category_table(100_000, 0.2, numbers=15, categories=5)
    assert search_slices(table).tried > 10_000


def test_slices_string_frame_and_plot() -> None:
    result = search_slices(make_weak_category_table(2000))
    assert "1 weak slice of" in str(result)
    assert "error rate" in str(result)
    frame = result.to_frame()
    assert frame["slice"].tolist() == ["c0 = b"]
    assert result.plot().get_title() == result.headline
