"""What is told of a curve: noise, trend, breaks, spikes and rhythm, on curves whose truth is known."""

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

DRAW = np.random.default_rng(0)
NOISE = DRAW.normal(size=2000)
TIED = np.convolve(DRAW.normal(size=2040), np.ones(20) / np.sqrt(20), mode="valid")[:2000]


def test_the_spread_is_that_of_the_noise_whatever_the_trend() -> None:
    assert noise_level(NOISE) == pytest.approx(1.0, rel=0.1)
    assert noise_level(NOISE + np.linspace(50, 0, 2000)) == pytest.approx(1.0, rel=0.1)
    outliers = NOISE.copy()
    outliers[::50] += 100
    assert noise_level(outliers) == pytest.approx(1.0, rel=0.25)


def test_noise_that_hangs_together_makes_a_larger_error_of_the_mean() -> None:
    assert standard_error(NOISE) == pytest.approx(1 / np.sqrt(2000), rel=0.4)
    assert standard_error(TIED) > 2.5 * standard_error(NOISE)


@pytest.mark.parametrize("length", [24, 200, 2000])
def test_a_curve_of_noise_alone_has_no_trend(length: int) -> None:
    found = [fit_trend(np.random.default_rng(seed).normal(size=length)) for seed in range(60)]
    assert sum(one.falls or one.rises for one in found) <= 3


def test_a_slope_is_found_with_its_size() -> None:
    found = fit_trend(NOISE + np.linspace(5, 0, 2000))
    assert found.falls
    assert found.change == pytest.approx(-5, abs=0.3)
    assert fit_trend(np.linspace(0, 1, 50)).rises
    assert fit_trend(np.array([1.0, 2.0])).level == 1.5


def test_breaks_stand_where_the_level_changes_and_nowhere_else() -> None:
    assert change_points(np.concatenate([NOISE[:300] + 8, NOISE[300:900]])) == [300]
    assert change_points(NOISE[:500]) == []
    assert change_points(np.array([1.0, 2.0])) == []


def test_spikes_are_single_steps_and_no_rise_that_stays() -> None:
    curve = 1 + 0.05 * NOISE[:400]
    curve[[90, 300]] = 30.0
    assert spike_positions(curve, threshold=2.0) == [90, 300]
    assert spike_positions(np.where(np.arange(400) < 200, 1.0, 30.0) + 0.05 * NOISE[:400], threshold=2.0) == []


def test_a_drift_within_each_epoch_is_a_slow_rhythm_and_a_fixed_order_a_quick_one() -> None:
    epoch = np.tile(np.repeat([2.0, 0.5], 20), 6) + 0.1 * NOISE[:240]
    order = np.tile(DRAW.normal(size=40), 6) + 0.1 * NOISE[:240]
    slow, quick, none = find_periodicity(epoch, 40), find_periodicity(order, 40), find_periodicity(NOISE[:240], 40)
    assert slow is not None
    assert quick is not None
    assert none is not None
    assert slow.agreement > 0.9
    assert slow.slow_share > 0.6
    assert slow.amplitude == pytest.approx(1.5, rel=0.4)
    assert quick.agreement > 0.9
    assert quick.slow_share < 0.5
    assert none.agreement < 0.3
    assert find_periodicity(NOISE[:240], 100) is None


def test_curves_are_shortened_and_smoothed_without_moving_their_level() -> None:
    curve = 3 + NOISE
    curve[100] = 1e6
    assert len(bin_means(curve, 64)) == 64
    assert np.median(bin_medians(curve, 20)) == pytest.approx(3, abs=0.1)
    assert running_median(curve, 31) == pytest.approx(np.full(2000, 3.0), abs=1.0)
    assert len(running_median(curve, 31)) == 2000
