"""What columns are told to be by their values."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.counterfactuals.feature_space import FeatureSpace, build_feature_space

RANDOM = np.random.default_rng(0)
COUNT = 200
KINDS = RANDOM.integers(0, 3, COUNT)
ONE_HOT = np.eye(3)[KINDS]
AGES = RANDOM.integers(18, 66, COUNT).astype(float)
REAL = RANDOM.normal(size=COUNT)


def units(*columns: np.ndarray, names: list[str] | None = None, chosen: tuple[int, ...] = ()) -> FeatureSpace:
    rows = np.column_stack(columns).astype(np.float32).astype(np.float64)
    return build_feature_space(rows, names or [f"c{j}" for j in range(rows.shape[1])], chosen)


def test_every_kind_is_told_by_its_values() -> None:
    found = units(REAL, AGES, RANDOM.integers(0, 2, COUNT), np.full(COUNT, 7.0), RANDOM.integers(0, 4, COUNT))
    assert [one.kind for one in found.units] == ["real", "steps", "choice", "constant", "steps"]
    assert found.units[1].options[:, 0].tolist() == list(range(int(AGES.min()), int(AGES.max()) + 1))


def test_normalized_whole_numbers_keep_their_steps() -> None:
    found = units((AGES - AGES.mean()) / AGES.std(), REAL)
    assert [one.kind for one in found.units] == ["steps", "real"]
    assert np.diff(found.units[0].options[:, 0]) == pytest.approx(1 / AGES.std(), rel=1e-3)


@pytest.mark.parametrize("normalized", [False, True])
def test_columns_of_which_one_is_on_are_a_group(normalized: bool) -> None:
    hot = (ONE_HOT - ONE_HOT.mean(0)) / ONE_HOT.std(0) if normalized else ONE_HOT
    found = units(REAL, hot, AGES, names=["x", "port_a", "port_b", "port_c", "age"])
    assert [(one.name, one.columns) for one in found.units] == [("x", (0,)), ("port", (1, 2, 3)), ("age", (4,))]
    assert len(found.units[1].options) == 3


def test_two_flags_that_may_both_be_on_are_no_group() -> None:
    flags = RANDOM.integers(0, 2, (COUNT, 2))
    assert [one.columns for one in units(flags[:, 0], flags[:, 1]).units] == [(0,), (1,)]


def test_columns_of_embeddings_take_only_what_was_seen() -> None:
    found = units(np.array([1, 5, 9, 5, 1, 9]), chosen=(0,))
    assert (found.units[0].kind, found.units[0].options[:, 0].tolist()) == ("choice", [1, 5, 9])


def test_distances_count_in_median_deviations_and_a_choice_once() -> None:
    found = units(REAL, ONE_HOT)
    rows = found.rows
    spread = np.median(np.abs(rows[:, 0] - np.median(rows[:, 0])))
    same = int(np.nonzero(KINDS[0] == KINDS)[0][1])
    other = int(np.nonzero(KINDS[0] != KINDS)[0][0])
    apart = found.distance(rows[[same, other]], rows[0])
    assert apart == pytest.approx(np.abs(rows[[same, other], 0] - rows[0, 0]) / spread + [0, 1.67])
