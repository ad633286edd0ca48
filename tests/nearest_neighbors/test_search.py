"""Nearest rows: as scikit-learn finds them, in either metric, block by block."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from nbdebug import nearest_neighbors
from nbdebug.exceptions import SetupError
from nbdebug.nearest_neighbors import Metric, nearest_rows

RANDOM = np.random.default_rng(0)
POINTS = RANDOM.normal(size=(900, 20)).astype(np.float32)
QUERIES = RANDOM.normal(size=(70, 20)).astype(np.float32)
METRICS: tuple[Metric, ...] = ("cosine", "euclidean")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("block", [1_000, 8_000_000])
def test_agrees_with_scikit_learn(metric: Metric, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_neighbors, "DISTANCES_PER_BLOCK", block)
    fitted = NearestNeighbors(n_neighbors=7, metric=metric, algorithm="brute").fit(POINTS.astype(np.float64))
    wanted, at = fitted.kneighbors(QUERIES.astype(np.float64))
    distances, places = nearest_rows(QUERIES, POINTS, 7, metric)
    assert (places == at).all()
    assert distances == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_a_point_is_not_its_own_neighbor(metric: Metric) -> None:
    _, places = nearest_rows(POINTS[:50], POINTS, 3, metric, skip=np.arange(50))
    assert (places != np.arange(50)[:, None]).all()
    _, places = nearest_rows(POINTS[:2], POINTS, 1, metric, skip=np.array([-1, 1]))
    assert places[0, 0] == 0
    assert places[1, 0] != 1


def test_copies_are_at_no_distance_even_far_from_zero() -> None:
    far = POINTS + 1e4
    distances, places = nearest_rows(far[:20], far, 1, "euclidean")
    assert (places[:, 0] == np.arange(20)).all()
    assert not distances.any()


def test_what_is_not_finite_and_rows_of_zeros_are_borne() -> None:
    points = POINTS.copy()
    points[3] = np.nan
    points[4] = 0
    for metric in METRICS:
        distances, _ = nearest_rows(points[:6], points, 5, metric)
        assert np.isfinite(distances).all()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(SetupError, match="cosine"):
        nearest_rows(QUERIES, POINTS, 2, "manhattan")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="at most 3"):
        nearest_rows(QUERIES, POINTS[:3], 4)
    assert nearest_rows(QUERIES[:0], POINTS, 4)[1].shape == (0, 4)
