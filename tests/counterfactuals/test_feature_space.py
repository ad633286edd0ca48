"""Tests of build_feature_space() and FeatureSpace."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.counterfactuals.feature_space import FeatureSpace, build_feature_space

RANDOM = np.random.default_rng(0)
COUNT = 200
CATEGORIES = RANDOM.integers(0, 3, COUNT)
ONE_HOT = np.eye(3)[CATEGORIES]
AGES = RANDOM.integers(18, 66, COUNT).astype(float)
REAL = RANDOM.normal(size=COUNT)


def make_feature_space(
    *columns: np.ndarray, names: list[str] | None = None, embedding_columns: tuple[int, ...] = ()
) -> FeatureSpace:
    rows = np.column_stack(columns).astype(np.float32).astype(np.float64)
    return build_feature_space(rows, names or [f"c{j}" for j in range(rows.shape[1])], embedding_columns)


def test_build_feature_space_infers_kind_from_values() -> None:
    space = make_feature_space(
        REAL, AGES, RANDOM.integers(0, 2, COUNT), np.full(COUNT, 7.0), RANDOM.integers(0, 4, COUNT)
    )
    assert [unit.kind for unit in space.units] == ["real", "steps", "choice", "constant", "steps"]
    assert space.units[1].options[:, 0].tolist() == list(range(int(AGES.min()), int(AGES.max()) + 1))


def test_build_feature_space_normalized_integers_keep_steps() -> None:
    space = make_feature_space((AGES - AGES.mean()) / AGES.std(), REAL)
    assert [unit.kind for unit in space.units] == ["steps", "real"]
    assert np.diff(space.units[0].options[:, 0]) == pytest.approx(1 / AGES.std(), rel=1e-3)


@pytest.mark.parametrize("normalized", [False, True])
def test_build_feature_space_one_hot_columns_form_a_group(normalized: bool) -> None:
    hot = (ONE_HOT - ONE_HOT.mean(0)) / ONE_HOT.std(0) if normalized else ONE_HOT
    space = make_feature_space(REAL, hot, AGES, names=["x", "port_a", "port_b", "port_c", "age"])
    assert [(unit.name, unit.columns) for unit in space.units] == [("x", (0,)), ("port", (1, 2, 3)), ("age", (4,))]
    assert len(space.units[1].options) == 3


def test_build_feature_space_independent_flags_form_no_group() -> None:
    flags = RANDOM.integers(0, 2, (COUNT, 2))
    assert [unit.columns for unit in make_feature_space(flags[:, 0], flags[:, 1]).units] == [(0,), (1,)]


def test_build_feature_space_embedding_column_takes_seen_values_only() -> None:
    space = make_feature_space(np.array([1, 5, 9, 5, 1, 9]), embedding_columns=(0,))
    assert (space.units[0].kind, space.units[0].options[:, 0].tolist()) == ("choice", [1, 5, 9])


def test_feature_space_distance_is_in_median_deviations_and_counts_choice_once() -> None:
    space = make_feature_space(REAL, ONE_HOT)
    rows = space.rows
    spread = np.median(np.abs(rows[:, 0] - np.median(rows[:, 0])))
    same_category = int(np.nonzero(CATEGORIES[0] == CATEGORIES)[0][1])
    other_category = int(np.nonzero(CATEGORIES[0] != CATEGORIES)[0][0])
    distances = space.distance(rows[[same_category, other_category]], rows[0])
    assert distances == pytest.approx(
        np.abs(rows[[same_category, other_category], 0] - rows[0, 0]) / spread + [0, 1.67]
    )
