"""What smoothing keeps, and when a loss counts as diverged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nbdebug.training.divergence import DivergenceDetector, RunningMean, smooth_curve

COUNTS = [1, 2, 3, 10, 100, 500]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("value", [0.0, 2.5, -7.25, 1e-12, 1e12])
def test_a_constant_stays_that_constant(value: float, count: int) -> None:
    running = RunningMean(count)
    assert [running(value) for _ in range(count)] == pytest.approx([value] * count, rel=1e-12)
    assert smooth_curve([value] * count) == pytest.approx((value,) * count, rel=1e-9)


@pytest.mark.parametrize("count", COUNTS)
def test_a_line_down_stays_that_line(count: int) -> None:
    line = np.linspace(3, -1, count)
    assert smooth_curve(line.tolist()) == pytest.approx(tuple(line), abs=1e-9)


def test_smoothing_has_no_lag() -> None:
    x = np.linspace(-4, 4, 100)
    fall = -np.tanh(x)
    slope = np.gradient(np.array(smooth_curve(fall.tolist())))
    assert abs(int(slope.argmin()) - 49.5) <= 1


def test_smoothing_takes_noise_away() -> None:
    noise = np.random.default_rng(0).normal(size=400)
    assert np.std(smooth_curve(noise.tolist())) < 0.35 * np.std(noise)


@pytest.mark.parametrize("explosion", [1e3, 1e9, 1e300])
def test_an_explosion_does_not_pull_up_what_lies_before_it(explosion: float) -> None:
    fall = [*np.linspace(2, 1, 60), explosion, explosion]
    assert int(np.argmin(smooth_curve(fall))) >= 55
    assert max(smooth_curve(fall)[:55]) < 2.1


def test_a_spike_at_the_first_step_bends_only_what_is_beside_it() -> None:
    fall = [1e6, *np.linspace(2, 1, 99)]
    assert smooth_curve(fall)[10:] == pytest.approx(smooth_curve([2.0, *fall[1:]])[10:], abs=0.02)


def diverges_at(losses: list[float]) -> int | None:
    """The step at which a guard says that it is the end."""
    guard = DivergenceDetector(len(losses))
    return next((step for step, loss in enumerate(losses) if guard.update_and_check(loss)), None)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 0.1, 1e-30])
def test_a_constant_loss_never_diverges(value: float) -> None:
    assert diverges_at([value] * 100) is None


@pytest.mark.parametrize("seed", range(20))
def test_noise_about_a_constant_never_diverges(seed: int) -> None:
    assert diverges_at(np.random.default_rng(seed).normal(2.3, 0.3, 200).tolist()) is None


@pytest.mark.parametrize("shift", [0.0, -100.0, -2.0, 1000.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_where_a_curve_diverges_depends_on_neither_height_nor_scale(shift: float, scale: float) -> None:
    curve = np.concatenate([np.full(30, 2.0), np.linspace(2, 0.5, 40), 0.5 + 1.3 ** np.arange(30)])
    assert diverges_at((scale * curve + shift).tolist()) == diverges_at(curve.tolist())
    assert 75 < diverges_at(curve.tolist()) < 90


def test_a_spike_at_the_first_step_neither_stops_the_sweep_nor_keeps_it_going() -> None:
    usual = [*np.linspace(2, 0.5, 60), *np.linspace(0.5, 100, 40)]
    assert diverges_at([1e4, *usual[1:]]) == pytest.approx(diverges_at(usual), abs=8)


def test_a_single_wild_batch_is_no_divergence() -> None:
    curve = np.linspace(2, 1, 100).tolist()
    curve[50] = 6.0
    assert diverges_at(curve) is None


def test_the_first_loss_counts_as_the_median_of_the_first() -> None:
    guard = DivergenceDetector(100)
    for loss in (50.0, 2.0, 2.0, 2.0, 2.0):
        guard.update_and_check(loss)
    assert guard.first == 2.0
    assert math.isfinite(guard.mean)
