"""Tests of the smoothing of loss curves and the detection of divergence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nbdebug.training.divergence import DivergenceDetector, RunningMean, smooth_curve

COUNTS = [1, 2, 3, 10, 100, 500]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("value", [0.0, 2.5, -7.25, 1e-12, 1e12])
def test_running_mean_and_smooth_curve_of_constant_are_constant(value: float, count: int) -> None:
    running = RunningMean(count)
    assert [running(value) for _ in range(count)] == pytest.approx([value] * count, rel=1e-12)
    assert smooth_curve([value] * count) == pytest.approx((value,) * count, rel=1e-9)


@pytest.mark.parametrize("count", COUNTS)
def test_smooth_curve_of_straight_line_is_unchanged(count: int) -> None:
    line = np.linspace(3, -1, count)
    assert smooth_curve(line.tolist()) == pytest.approx(tuple(line), abs=1e-9)


def test_smooth_curve_has_no_lag() -> None:
    x = np.linspace(-4, 4, 100)
    curve = -np.tanh(x)
    slope = np.gradient(np.array(smooth_curve(curve.tolist())))
    assert abs(int(slope.argmin()) - 49.5) <= 1


def test_smooth_curve_reduces_noise() -> None:
    noise = np.random.default_rng(0).normal(size=400)
    assert np.std(smooth_curve(noise.tolist())) < 0.35 * np.std(noise)


@pytest.mark.parametrize("explosion", [1e3, 1e9, 1e300])
def test_smooth_curve_before_explosion_is_unchanged(explosion: float) -> None:
    curve = [*np.linspace(2, 1, 60), explosion, explosion]
    assert int(np.argmin(smooth_curve(curve))) >= 55
    assert max(smooth_curve(curve)[:55]) < 2.1


def test_smooth_curve_spike_at_first_step_bends_only_its_neighbors() -> None:
    curve = [1e6, *np.linspace(2, 1, 99)]
    assert smooth_curve(curve)[10:] == pytest.approx(smooth_curve([2.0, *curve[1:]])[10:], abs=0.02)


def divergence_step(losses: list[float]) -> int | None:
    """The step at which the detector reports divergence."""
    detector = DivergenceDetector(len(losses))
    return next((step for step, loss in enumerate(losses) if detector.update_and_check(loss)), None)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 0.1, 1e-30])
def test_divergence_detector_constant_loss_never_diverges(value: float) -> None:
    assert divergence_step([value] * 100) is None


@pytest.mark.parametrize("seed", range(20))
def test_divergence_detector_noise_around_constant_never_diverges(seed: int) -> None:
    assert divergence_step(np.random.default_rng(seed).normal(2.3, 0.3, 200).tolist()) is None


@pytest.mark.parametrize("offset", [0.0, -100.0, -2.0, 1000.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_divergence_detector_is_independent_of_offset_and_scale(offset: float, scale: float) -> None:
    curve = np.concatenate([np.full(30, 2.0), np.linspace(2, 0.5, 40), 0.5 + 1.3 ** np.arange(30)])
    assert divergence_step((scale * curve + offset).tolist()) == divergence_step(curve.tolist())
    assert 75 < divergence_step(curve.tolist()) < 90


def test_divergence_detector_spike_at_first_step_barely_moves_divergence() -> None:
    losses = [*np.linspace(2, 0.5, 60), *np.linspace(0.5, 100, 40)]
    assert divergence_step([1e4, *losses[1:]]) == pytest.approx(divergence_step(losses), abs=8)


def test_divergence_detector_ignores_single_outlier() -> None:
    curve = np.linspace(2, 1, 100).tolist()
    curve[50] = 6.0
    assert divergence_step(curve) is None


def test_divergence_detector_first_loss_is_median_of_first_losses() -> None:
    detector = DivergenceDetector(100)
    for loss in (50.0, 2.0, 2.0, 2.0, 2.0):
        detector.update_and_check(loss)
    assert detector.first == 2.0
    assert math.isfinite(detector.mean)
