"""Curves, thresholds and their thinning: as scikit-learn has them, and not to be told from the whole."""

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


def drawn(rows: int, seed: int = 0, gap: float = 1.0, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.random(rows) < share
    return 1 / (1 + np.exp(-(random.normal(size=rows) + gap * target))), target


def test_curves_and_areas_are_those_of_scikit_learn() -> None:
    chance, target = drawn(500)
    chance = chance.round(2)
    found = class_curves(chance, target)
    assert found is not None
    x, y, at = roc_curve(target, chance, drop_intermediate=False)
    assert (found.roc.x == x).all()
    assert (found.roc.y == y).all()
    assert (found.roc.thresholds == at).all()
    precision, recall, at = precision_recall_curve(target, chance)
    assert (found.precision_recall.x[::-1] == recall).all()
    assert (found.precision_recall.y[::-1] == precision).all()
    assert (found.precision_recall.thresholds[::-1][:-1] == at).all()
    assert found.roc.area == pytest.approx(roc_auc_score(target, chance), rel=1e-14)
    assert found.precision_recall.area == pytest.approx(average_precision_score(target, chance), rel=1e-14)
    assert (found.positives, found.rows) == (int(target.sum()), 500)


@pytest.mark.parametrize("seed", range(20))
def test_areas_agree_to_the_last_digit(seed: int) -> None:
    chance, target = drawn(40 + 50 * seed, seed)
    chance = chance.astype(np.float32).round(1 + seed % 4)
    found = class_curves(chance, target)
    assert found is not None
    assert found.roc.area == pytest.approx(roc_auc_score(target, chance), rel=4e-16, abs=0)
    assert found.precision_recall.area == pytest.approx(average_precision_score(target, chance), rel=4e-16, abs=0)


@pytest.mark.parametrize("target", [np.zeros(5), np.ones(5)])
def test_one_class_alone_has_no_curve(target: np.ndarray) -> None:
    assert class_curves(np.linspace(0, 1, 5), target) is None


def test_a_perfect_area_is_not_certain() -> None:
    low, high = auc_interval(1.0, 10, 10)
    assert 0.7 < low < 0.99
    assert high == 1
    assert auc_interval(0.0, 10, 10) == (0.0, pytest.approx(1 - low))


def test_intervals_hold_their_level() -> None:
    true_area = roc_auc_score(*drawn(400_000, 99)[::-1])
    true_precision = average_precision_score(*drawn(400_000, 99)[::-1])
    area, precision = [], []
    for seed in range(400):
        found = class_curves(*drawn(150, seed))
        assert found is not None
        area.append(found.roc.low <= true_area <= found.roc.high)
        precision.append(found.precision_recall.low <= true_precision <= found.precision_recall.high)
    assert np.mean(area) > 0.93
    assert np.mean(precision) > 0.93


def test_each_threshold_counts_as_scikit_learn_does() -> None:
    chance, target = drawn(300, 1)
    chance = chance.astype(np.float32).round(2)
    found = sweep_thresholds(chance, target)
    frame = found.to_frame(alarm=2, miss=5)
    assert 0.5 in found.values
    for row in frame.itertuples():
        said = chance >= np.float32(row.threshold)
        (tn, fp), (fn, tp) = confusion_matrix(target, said, labels=[False, True])
        assert (row.tn, row.fp, row.fn, row.tp) == (tn, fp, fn, tp)
        assert row.cost == 2 * fp + 5 * fn
        assert row.recall == recall_score(target, said)
        assert row.f1 == f1_score(target, said)
        if said.any():
            assert row.precision == precision_score(target, said)
    for low, below in zip(found.values, found.below, strict=True):
        assert (chance < np.float32(low)).sum() == (0 if np.isnan(below) else (chance <= np.float32(below)).sum())


def test_few_thresholds_stand_for_many() -> None:
    found = sweep_thresholds(*drawn(100_000, 2))
    kept = found.page_indices(200)
    assert 100 < len(kept) <= 200
    assert found.values[kept[0]] == found.values[0]
    assert np.nanmax(found.f1) == np.nanmax(found.f1[kept])
    assert 0.5 in found.values[kept]
    assert sweep_thresholds([0.25, 0.75], [0, 1]).page_indices().tolist() == [0, 1, 2]


@pytest.mark.parametrize("rows", [30, 3_000, 300_000])
@pytest.mark.parametrize("share", [0.01, 0.5])
def test_a_thinned_curve_looks_the_same(rows: int, share: float) -> None:
    found = class_curves(*drawn(rows, 3, share=max(share, 3 / rows)))
    assert found is not None
    for one in (found.roc, found.precision_recall):
        kept = simplify_curve(one.x, one.y)
        assert len(kept) <= 200
        assert kept[0] == 0
        assert kept[-1] == len(one.x) - 1
        assert farthest_off(one.x, one.y, kept) < 0.5 / 250  # half a pixel of a plot


def farthest_off(x: np.ndarray, y: np.ndarray, kept: np.ndarray) -> float:
    """How far any point lies from the line between the kept points around it."""
    worst = 0.0
    for first, last in itertools.pairwise(kept):
        dx, dy = x[last] - x[first], y[last] - y[first]
        long = np.hypot(dx, dy)
        between = slice(first, last + 1)
        across = np.abs((x[between] - x[first]) * dy - (y[between] - y[first]) * dx)
        worst = max(worst, float((across / long).max()) if long else 0.0)
    return worst


def test_areas_are_found_as_shares_of_so_many_rows() -> None:
    found = class_curves(*drawn(200, 5))
    assert found is not None
    of = found.positives
    one = found.precision_recall
    assert (one.low, one.high) == tuple(map(float, wilson_interval(one.area * of, of)))
