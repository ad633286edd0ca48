"""A temperature is offered where it helps rows that it has not seen."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.metrics.calibration import temperature_scaling


def drawn(rows: int, true: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, 4)) * 2
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return logits * true, (random.random((rows, 1)) > chances.cumsum(1)).sum(1).clip(max=3)


def test_an_overconfident_model_is_mended() -> None:
    found = temperature_scaling(*drawn(3000, 3.0))
    assert found.temperature == pytest.approx(3, rel=0.1)
    assert found.helps
    assert found.before.is_miscalibrated
    assert not found.after.is_miscalibrated
    assert found.rows == 3000


def test_a_calibrated_model_gains_little() -> None:
    found = temperature_scaling(*drawn(3000, 1.0))
    assert found.temperature == pytest.approx(1, abs=0.1)
    assert abs(found.loss_after - found.loss_before) < 1e-3
    assert not found.helps


def test_on_few_rows_it_is_not_judged_by_its_own_fit() -> None:
    helped = [temperature_scaling(*drawn(20, 1.0, seed)).helps for seed in range(50)]
    assert np.mean(helped) < 0.2


def test_many_rows_are_represented_by_some() -> None:
    assert temperature_scaling(*drawn(3000, 3.0), max_logits=10_000).rows == 2500
    assert temperature_scaling(*drawn(3000, 3.0), max_logits=10).rows == 2000
