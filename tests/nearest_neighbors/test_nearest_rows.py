"""Tests of nearest_rows()."""

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
def test_nearest_rows_match_scikit_learn(metric: Metric, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_neighbors, "DISTANCES_PER_BLOCK", block)
    fitted = NearestNeighbors(n_neighbors=7, metric=metric, algorithm="brute").fit(POINTS.astype(np.float64))
    expected_distances, expected_indices = fitted.kneighbors(QUERIES.astype(np.float64))
    distances, indices = nearest_rows(QUERIES, POINTS, 7, metric)
    assert (indices == expected_indices).all()
    assert distances == pytest.approx(expected_distances, abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_nearest_rows_skip_excludes_row_itself(metric: Metric) -> None:
    _, indices = nearest_rows(POINTS[:50], POINTS, 3, metric, skip=np.arange(50))
    assert (indices != np.arange(50)[:, None]).all()
    _, indices = nearest_rows(POINTS[:2], POINTS, 1, metric, skip=np.array([-1, 1]))
    assert indices[0, 0] == 0
    assert indices[1, 0] != 1


def test_nearest_rows_of_copies_far_from_zero_have_zero_distance() -> None:
    shifted = POINTS + 1e4
    distances, indices = nearest_rows(shifted[:20], shifted, 1, "euclidean")
    assert (indices[:, 0] == np.arange(20)).all()
    assert not distances.any()


def test_nearest_rows_with_nan_or_zero_rows_have_finite_distances() -> None:
    points = POINTS.copy()
    points[3] = np.nan
    points[4] = 0
    for metric in METRICS:
        distances, _ = nearest_rows(points[:6], points, 5, metric)
        assert np.isfinite(distances).all()


def test_nearest_rows_invalid_argument_raises_setup_error() -> None:
    with pytest.raises(SetupError, match="cosine"):
        nearest_rows(QUERIES, POINTS, 2, "manhattan")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="at most 3"):
        nearest_rows(QUERIES, POINTS[:3], 4)
    assert nearest_rows(QUERIES[:0], POINTS, 4)[1].shape == (0, 4)
