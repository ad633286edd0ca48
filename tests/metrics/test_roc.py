"""Tests of ROC and precision-recall curves, thresholds and curve simplification."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    f1_score,
    precision_recall_curve,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)

from nbdebug.metrics.roc import auc_interval, class_curves, simplify_curve, sweep_thresholds
from nbdebug.statistics.intervals import wilson_interval


def make_scores(rows: int, seed: int = 0, gap: float = 1.0, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.random(rows) < share
    return 1 / (1 + np.exp(-(random.normal(size=rows) + gap * target))), target


def test_class_curves_equal_scikit_learn() -> None:
    scores, target = make_scores(500)
    scores = scores.round(2)
    curves = class_curves(scores, target)
    assert curves is not None
    x, y, thresholds = roc_curve(target, scores, drop_intermediate=False)
    assert (curves.roc.x == x).all()
    assert (curves.roc.y == y).all()
    assert (curves.roc.thresholds == thresholds).all()
    precision, recall, thresholds = precision_recall_curve(target, scores)
    assert (curves.precision_recall.x[::-1] == recall).all()
    assert (curves.precision_recall.y[::-1] == precision).all()
    assert (curves.precision_recall.thresholds[::-1][:-1] == thresholds).all()
    assert curves.roc.area == pytest.approx(roc_auc_score(target, scores), rel=1e-14)
    assert curves.precision_recall.area == pytest.approx(average_precision_score(target, scores), rel=1e-14)
    assert (curves.positives, curves.rows) == (int(target.sum()), 500)


@pytest.mark.parametrize("seed", range(20))
def test_class_curves_areas_equal_scikit_learn_to_last_digit(seed: int) -> None:
    scores, target = make_scores(40 + 50 * seed, seed)
    scores = scores.astype(np.float32).round(1 + seed % 4)
    curves = class_curves(scores, target)
    assert curves is not None
    assert curves.roc.area == pytest.approx(roc_auc_score(target, scores), rel=4e-16, abs=0)
    assert curves.precision_recall.area == pytest.approx(average_precision_score(target, scores), rel=4e-16, abs=0)


@pytest.mark.parametrize("target", [np.zeros(5), np.ones(5)])
def test_class_curves_of_single_class_are_none(target: np.ndarray) -> None:
    assert class_curves(np.linspace(0, 1, 5), target) is None


def test_auc_interval_of_perfect_area_has_width() -> None:
    low, high = auc_interval(1.0, 10, 10)
    assert 0.7 < low < 0.99
    assert high == 1
    assert auc_interval(0.0, 10, 10) == (0.0, pytest.approx(1 - low))


def test_class_curves_intervals_cover_true_areas_at_nominal_rate() -> None:
    true_area = roc_auc_score(*make_scores(400_000, 99)[::-1])
    true_average_precision = average_precision_score(*make_scores(400_000, 99)[::-1])
    roc_coverage, precision_recall_coverage = [], []
    for seed in range(400):
        curves = class_curves(*make_scores(150, seed))
        assert curves is not None
        roc_coverage.append(curves.roc.low <= true_area <= curves.roc.high)
        curve = curves.precision_recall
        precision_recall_coverage.append(curve.low <= true_average_precision <= curve.high)
    assert np.mean(roc_coverage) > 0.93
    assert np.mean(precision_recall_coverage) > 0.93


def test_sweep_thresholds_counts_equal_scikit_learn() -> None:
    scores, target = make_scores(300, 1)
    scores = scores.astype(np.float32).round(2)
    sweep = sweep_thresholds(scores, target)
    frame = sweep.to_frame(alarm=2, miss=5)
    assert 0.5 in sweep.values
    for row in frame.itertuples():
        prediction = scores >= np.float32(row.threshold)
        (tn, fp), (fn, tp) = confusion_matrix(target, prediction, labels=[False, True])
        assert (row.tn, row.fp, row.fn, row.tp) == (tn, fp, fn, tp)
        assert row.cost == 2 * fp + 5 * fn
        assert row.recall == recall_score(target, prediction)
        assert row.f1 == f1_score(target, prediction)
        if prediction.any():
            assert row.precision == precision_score(target, prediction)
    for low, below in zip(sweep.values, sweep.below, strict=True):
        assert (scores < np.float32(low)).sum() == (0 if np.isnan(below) else (scores <= np.float32(below)).sum())


def test_sweep_thresholds_page_indices_keep_best_and_default_threshold() -> None:
    sweep = sweep_thresholds(*make_scores(100_000, 2))
    indices = sweep.page_indices(200)
    assert 100 < len(indices) <= 200
    assert sweep.values[indices[0]] == sweep.values[0]
    assert np.nanmax(sweep.f1) == np.nanmax(sweep.f1[indices])
    assert 0.5 in sweep.values[indices]
    assert sweep_thresholds([0.25, 0.75], [0, 1]).page_indices().tolist() == [0, 1, 2]


@pytest.mark.parametrize("rows", [30, 3_000, 300_000])
@pytest.mark.parametrize("share", [0.01, 0.5])
def test_simplify_curve_deviates_by_less_than_half_a_pixel(rows: int, share: float) -> None:
    curves = class_curves(*make_scores(rows, 3, share=max(share, 3 / rows)))
    assert curves is not None
    for curve in (curves.roc, curves.precision_recall):
        indices = simplify_curve(curve.x, curve.y)
        assert len(indices) <= 200
        assert indices[0] == 0
        assert indices[-1] == len(curve.x) - 1
        assert max_deviation(curve.x, curve.y, indices) < 0.5 / 250  # half a pixel of a plot


def max_deviation(x: np.ndarray, y: np.ndarray, indices: np.ndarray) -> float:
    """Return the largest distance of a point from the polyline through ``indices``."""
    maximum = 0.0
    for first, last in itertools.pairwise(indices):
        dx, dy = x[last] - x[first], y[last] - y[first]
        length = np.hypot(dx, dy)
        segment = slice(first, last + 1)
        distance = np.abs((x[segment] - x[first]) * dy - (y[segment] - y[first]) * dx)
        maximum = max(maximum, float((distance / length).max()) if length else 0.0)
    return maximum


def test_precision_recall_area_has_wilson_interval_of_positives() -> None:
    curves = class_curves(*make_scores(200, 5))
    assert curves is not None
    positives = curves.positives
    curve = curves.precision_recall
    assert (curve.low, curve.high) == tuple(map(float, wilson_interval(curve.area * positives, positives)))
