"""Tests of calibration curves, the Brier score and temperature scaling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss

from nbdebug.metrics.calibration import (
    brier_score,
    calibration_curve,
    fit_temperature,
    scaled_cross_entropy,
    temperature_scaling,
)


def make_outcomes(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    confidence = random.beta(5, 2, rows)
    return confidence, random.random(rows) < confidence


def make_logits(rows: int, temperature: float = 1.0, seed: int = 0, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are calibrated at ``temperature``, and targets."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, classes)) * 2
    target = (random.random((rows, 1)) > softmax(logits, axis=1).cumsum(1)).sum(1).clip(max=classes - 1)
    return logits * temperature, target


def test_calibration_curve_of_calibrated_model_is_rarely_miscalibrated() -> None:
    false_alarms = sum(calibration_curve(*make_outcomes(500, seed)).is_miscalibrated for seed in range(200))
    assert false_alarms <= 22


def test_calibration_curve_of_overconfident_model_is_miscalibrated() -> None:
    confidence, is_correct = make_outcomes(2000, 0)
    curve = calibration_curve(confidence**0.5, is_correct)
    assert curve.is_miscalibrated
    assert curve.is_overconfident
    assert not calibration_curve(np.clip(confidence - 0.2, 0.01, 1), is_correct).is_overconfident


def test_calibration_curve_bins_have_equal_counts_and_exact_totals() -> None:
    confidence, is_correct = make_outcomes(1003, 1)
    curve = calibration_curve(confidence, is_correct, bins=10)
    assert curve.counts.sum() == 1003
    assert curve.counts.max() - curve.counts.min() <= 1
    assert (curve.counts @ curve.accuracy) == pytest.approx(is_correct.sum())
    assert curve.calibration_error == pytest.approx(
        float(np.abs(curve.accuracy - curve.confidence) @ curve.counts / 1003)
    )
    assert len(calibration_curve(confidence[:4], is_correct[:4]).counts) == 4


def test_calibration_curve_bins_are_ranges_of_confidence() -> None:
    confidence, is_correct = make_outcomes(1000, 1)
    confidence = confidence.round(1)
    curve = calibration_curve(confidence, is_correct)
    for i, count in enumerate(curve.counts):
        is_in_bin = (confidence >= curve.lowest[i]) & (confidence <= curve.highest[i])
        assert is_in_bin.sum() == count
        assert is_correct[is_in_bin].mean() == pytest.approx(curve.accuracy[i])
    assert curve.counts.sum() == 1000
    assert calibration_curve(np.ones(50), is_correct[:50]).counts.tolist() == [50]


def test_brier_score_equals_scikit_learn() -> None:
    random = np.random.default_rng(2)
    probabilities = random.dirichlet(np.ones(2), 300)
    target = random.integers(0, 2, 300)
    expected = 2 * brier_score_loss(target, probabilities[:, 1])
    assert brier_score(probabilities, target) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_fit_temperature_recovers_true_temperature(temperature: float) -> None:
    logits, target = make_logits(4000, seed=3, classes=5)
    assert fit_temperature(logits * temperature, target) == pytest.approx(temperature, rel=0.1)
    expected = log_loss(target, softmax(logits, axis=1), labels=range(5))
    assert scaled_cross_entropy(logits, target, 1.0) == pytest.approx(expected, rel=1e-9)


def test_temperature_scaling_of_overconfident_model_calibrates_it() -> None:
    scaling = temperature_scaling(*make_logits(3000, 3.0))
    assert scaling.temperature == pytest.approx(3, rel=0.1)
    assert scaling.helps
    assert scaling.before.is_miscalibrated
    assert not scaling.after.is_miscalibrated
    assert scaling.rows == 3000


def test_temperature_scaling_of_calibrated_model_does_not_help() -> None:
    scaling = temperature_scaling(*make_logits(3000))
    assert scaling.temperature == pytest.approx(1, abs=0.1)
    assert abs(scaling.loss_after - scaling.loss_before) < 1e-3
    assert not scaling.helps


def test_temperature_scaling_of_few_rows_rarely_claims_to_help() -> None:
    verdicts = [temperature_scaling(*make_logits(20, 1.0, seed)).helps for seed in range(50)]
    assert np.mean(verdicts) < 0.2


def test_temperature_scaling_of_many_rows_uses_sample() -> None:
    assert temperature_scaling(*make_logits(3000, 3.0), max_logits=10_000).rows == 2500
    assert temperature_scaling(*make_logits(3000, 3.0), max_logits=10).rows == 2000
