"""Tests of noise, trend, change points, spikes and periodicity on synthetic curves."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.statistics.time_series import (
    bin_means,
    bin_medians,
    change_points,
    find_periodicity,
    fit_trend,
    noise_level,
    running_median,
    spike_positions,
    standard_error,
)

RANDOM = np.random.default_rng(0)
NOISE = RANDOM.normal(size=2000)
AUTOCORRELATED_NOISE = np.convolve(RANDOM.normal(size=2040), np.ones(20) / np.sqrt(20), mode="valid")[:2000]


def test_noise_level_ignores_trend_and_outliers() -> None:
    assert noise_level(NOISE) == pytest.approx(1.0, rel=0.1)
    assert noise_level(NOISE + np.linspace(50, 0, 2000)) == pytest.approx(1.0, rel=0.1)
    outliers = NOISE.copy()
    outliers[::50] += 100
    assert noise_level(outliers) == pytest.approx(1.0, rel=0.25)


def test_standard_error_of_autocorrelated_noise_is_larger() -> None:
    assert standard_error(NOISE) == pytest.approx(1 / np.sqrt(2000), rel=0.4)
    assert standard_error(AUTOCORRELATED_NOISE) > 2.5 * standard_error(NOISE)


@pytest.mark.parametrize("length", [24, 200, 2000])
def test_fit_trend_of_noise_finds_no_trend(length: int) -> None:
    trends = [fit_trend(np.random.default_rng(seed).normal(size=length)) for seed in range(60)]
    assert sum(trend.falls or trend.rises for trend in trends) <= 3


def test_fit_trend_of_slope_estimates_its_change() -> None:
    trend = fit_trend(NOISE + np.linspace(5, 0, 2000))
    assert trend.falls
    assert trend.change == pytest.approx(-5, abs=0.3)
    assert fit_trend(np.linspace(0, 1, 50)).rises
    assert fit_trend(np.array([1.0, 2.0])).level == 1.5


def test_change_points_are_only_where_the_level_changes() -> None:
    assert change_points(np.concatenate([NOISE[:300] + 8, NOISE[300:900]])) == [300]
    assert change_points(NOISE[:500]) == []
    assert change_points(np.array([1.0, 2.0])) == []


def test_spike_positions_exclude_a_lasting_rise() -> None:
    curve = 1 + 0.05 * NOISE[:400]
    curve[[90, 300]] = 30.0
    assert spike_positions(curve, threshold=2.0) == [90, 300]
    assert spike_positions(np.where(np.arange(400) < 200, 1.0, 30.0) + 0.05 * NOISE[:400], threshold=2.0) == []


def test_find_periodicity_separates_drift_within_epochs_from_repeated_order() -> None:
    epoch = np.tile(np.repeat([2.0, 0.5], 20), 6) + 0.1 * NOISE[:240]
    order = np.tile(RANDOM.normal(size=40), 6) + 0.1 * NOISE[:240]
    drift, repeated_order, noise = (
        find_periodicity(epoch, 40),
        find_periodicity(order, 40),
        find_periodicity(NOISE[:240], 40),
    )
    assert drift is not None
    assert repeated_order is not None
    assert noise is not None
    assert drift.agreement > 0.9
    assert drift.slow_share > 0.6
    assert drift.amplitude == pytest.approx(1.5, rel=0.4)
    assert repeated_order.agreement > 0.9
    assert repeated_order.slow_share < 0.5
    assert noise.agreement < 0.3
    assert find_periodicity(NOISE[:240], 100) is None


def test_bin_means_bin_medians_and_running_median_keep_length_and_level() -> None:
    curve = 3 + NOISE
    curve[100] = 1e6
    assert len(bin_means(curve, 64)) == 64
    assert np.median(bin_medians(curve, 20)) == pytest.approx(3, abs=0.1)
    assert running_median(curve, 31) == pytest.approx(np.full(2000, 3.0), abs=1.0)
    assert len(running_median(curve, 31)) == 2000
