"""Tests of residual metrics and residual patterns."""

from __future__ import annotations

import numpy as np

from nbdebug.metrics.regression import residual_metrics, residual_pattern


def make_predictions(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.normal(2, 3, rows)
    return target + random.normal(0.4, 1, rows), target


def test_residual_metrics_intervals_cover_true_values_at_nominal_rate() -> None:
    true_values = {"rmse": np.sqrt(1.16), "mae": 0.8687, "r2": 1 - 1.16 / 9, "bias": 0.4}
    hits = dict.fromkeys(true_values, 0)
    for seed in range(400):
        prediction, target = make_predictions(200, seed)
        metrics = residual_metrics(target, prediction)
        for name, value in true_values.items():
            hits[name] += metrics[name].low <= value <= metrics[name].high
    assert all(0.91 <= count / 400 <= 0.985 for count in hits.values()), hits


def test_residual_pattern_names_trend_curvature_or_spread() -> None:
    random = np.random.default_rng(0)
    x, noise = random.uniform(0, 10, 2000), random.normal(0, 1, 2000)
    assert residual_pattern(x, noise, "age") == "Residuals show no trend with age and no change of spread."
    assert residual_pattern(x, noise + x / 3, "age").startswith("Residuals rise with age: ")
    assert residual_pattern(x, noise - x / 3, "age").startswith("Residuals fall with age: ")
    assert residual_pattern(x, noise + (x - 5) ** 2 / 8, "age").startswith("Residuals bend with age: ")
    message = residual_pattern(x, noise * (1 + x), "age")
    assert message.startswith("Residuals spread ")
    assert message.endswith("times as wide in the highest tenth of age as in the lowest tenth (heteroscedastic).")
    assert "in the lowest tenth of age as in the highest" in residual_pattern(-x, noise * (1 + x), "age")
    assert residual_pattern(x[:50], noise[:50], "age").startswith("Too few distinct values of age")
    assert residual_pattern(np.ones(2000), noise, "age").startswith("Too few distinct values of age")


def test_residual_pattern_of_noise_is_rarely_reported() -> None:
    false_alarms = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        false_alarms += not residual_pattern(random.normal(size=150), random.standard_t(3, 150), "x").startswith(
            "Residuals show no"
        )
    assert false_alarms <= 3
