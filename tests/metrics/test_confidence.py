"""Calibration, temperature and the comparison of two models, against known truths."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from nbdebug.metrics.calibration import brier_score, calibration_curve, fit_temperature, scaled_cross_entropy
from nbdebug.metrics.comparison import compare_paired


def outcomes(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    sure = random.beta(5, 2, rows)
    return sure, random.random(rows) < sure


def test_a_calibrated_model_is_seldom_off() -> None:
    off = sum(calibration_curve(*outcomes(500, seed)).is_miscalibrated for seed in range(200))
    assert off <= 22


def test_an_overconfident_model_is_off() -> None:
    sure, right = outcomes(2000, 0)
    found = calibration_curve(sure**0.5, right)
    assert found.is_miscalibrated
    assert found.is_overconfident
    assert not calibration_curve(np.clip(sure - 0.2, 0.01, 1), right).is_overconfident


def test_bins_hold_the_same_count_and_add_up() -> None:
    sure, right = outcomes(1003, 1)
    found = calibration_curve(sure, right, bins=10)
    assert found.counts.sum() == 1003
    assert found.counts.max() - found.counts.min() <= 1
    assert (found.counts @ found.accuracy) == pytest.approx(right.sum())
    assert found.calibration_error == pytest.approx(
        float(np.abs(found.accuracy - found.confidence) @ found.counts / 1003)
    )
    assert len(calibration_curve(sure[:4], right[:4]).counts) == 4


def test_a_bin_is_a_range_of_confidence() -> None:
    sure, right = outcomes(1000, 1)
    sure = sure.round(1)
    found = calibration_curve(sure, right)
    for i, count in enumerate(found.counts):
        inside = (sure >= found.lowest[i]) & (sure <= found.highest[i])
        assert inside.sum() == count
        assert right[inside].mean() == pytest.approx(found.accuracy[i])
    assert found.counts.sum() == 1000
    assert calibration_curve(np.ones(50), right[:50]).counts.tolist() == [50]


def test_the_brier_score_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(2)
    chances = random.dirichlet(np.ones(2), 300)
    target = random.integers(0, 2, 300)
    assert brier_score(chances, target) == pytest.approx(2 * brier_score_loss(target, chances[:, 1]), rel=1e-12)


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_a_temperature_is_found_again(true: float) -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(4000, 5)) * 2
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = (random.random((4000, 1)) > chances.cumsum(1)).sum(1).clip(max=4)
    assert fit_temperature(logits * true, target) == pytest.approx(true, rel=0.1)
    assert scaled_cross_entropy(logits, target, 1.0) == pytest.approx(
        log_loss(target, chances, labels=range(5)), rel=1e-9
    )


def test_flips_are_counted_and_their_interval_holds() -> None:
    before = np.array([1, 1, 0, 0, 1], bool)
    after = np.array([1, 0, 1, 1, 1], bool)
    found = compare_paired(before, after)
    assert (found.fixed, found.broken, found.gain) == (2, 1, pytest.approx(0.2))
    assert found.low < found.gain < found.high
    assert found.p == 1.0
    assert compare_paired(before, before).p == 1.0
    random, held = np.random.default_rng(4), []
    for _ in range(1000):
        draw = random.random(200)
        one, other = draw < 0.7, (draw < 0.6) | (draw > 0.85)
        result = compare_paired(one, other)
        held.append(result.low <= 0.05 <= result.high)
    assert 0.92 < np.mean(held) < 0.98
