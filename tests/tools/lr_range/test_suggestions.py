"""Tests of the readings of a curve, on known curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbdebug.tools.lr_range.data import Sweep
from nbdebug.tools.lr_range.suggestions import (
    READINGS,
    combine_readings,
    divergence,
    longest_descent,
    lowest_loss_value,
    minimum,
    slide,
    steepest,
    suggestions,
    valley,
)
from nbdebug.training.divergence import smooth_curve

RATES = np.geomspace(1e-7, 10, 100)
every_reading = pytest.mark.parametrize("reading", [*READINGS["lr"].values()])


def make_sweep(losses: Any, values: Any = RATES, ended: Any = "finished") -> Sweep:
    losses = [float(loss) for loss in losses]
    return Sweep(0, tuple(values[: len(losses)]), tuple(losses), smooth_curve(losses), ended)


def u_curve(noise: float = 0.0, seed: int = 0, shift: float = 0.0) -> Sweep:
    """A sweep that is flat up to 1e-4, steepest at 1e-2, lowest at about 0.1, and diverged at 1."""
    x = np.log10(RATES)
    losses = 2.3 - 1.8 / (1 + np.exp(-4 * (x + 2))) + np.where(x > -1, 4.0 * (np.clip(x, -1, None) + 1) ** 2, 0)
    losses = losses + np.random.default_rng(seed).normal(0, 1, 100) * noise + shift
    return make_sweep(losses[: int((RATES < 2).sum())], ended="diverged")


@pytest.mark.parametrize("shift", [0.0, -50.0])
def test_readings_of_u_curve_lie_in_expected_ranges(shift: float) -> None:
    sweep = u_curve(shift=shift)
    assert steepest(sweep) == pytest.approx(1e-2, rel=0.3)
    assert lowest_loss_value(sweep) == pytest.approx(0.12, rel=0.4)
    assert minimum(sweep) == pytest.approx(lowest_loss_value(sweep) / 10)
    assert steepest(sweep) < slide(sweep) <= lowest_loss_value(sweep)
    assert 1e-5 < valley(sweep) < lowest_loss_value(sweep)
    assert 0.03 < divergence(sweep) < 0.2


@pytest.mark.parametrize("seed", range(10))
def test_steepest_of_noisy_curve_stays_near_true_value(seed: int) -> None:
    assert 2e-3 < steepest(u_curve(noise=0.05, seed=seed)) < 5e-2


def test_steepest_uses_slope_over_logarithm_of_rate() -> None:
    sweep = u_curve(noise=0.02)
    linear = RATES[np.gradient(np.array(sweep.smooth), np.array(sweep.values)).argmin()]
    assert steepest(sweep) > 100 * linear


def test_steepest_of_unevenly_spaced_values_is_unchanged() -> None:
    x = np.linspace(1e-3, 1, 400)
    sweep = make_sweep(-np.tanh(4 * np.log10(x / 0.1)), values=x)
    assert steepest(sweep) == pytest.approx(0.1, rel=0.2)


def test_steepest_skips_value_of_zero() -> None:
    x = np.linspace(0, 1, 50)
    assert 0 < steepest(make_sweep(1 - x, values=x)) <= 1


@every_reading
@pytest.mark.parametrize(
    "losses",
    [[2.0] * 100, [], [2.0], [2.0, 1.0], [2.0, 1.0, 0.5, 0.2], list(range(1, 101))],
    ids=["constant", "empty", "one step", "two steps", "four steps", "rising"],
)
def test_reading_of_curve_without_descent_is_none(reading: Callable[[Sweep], float | None], losses: Any) -> None:
    assert reading(make_sweep(losses)) is None


@every_reading
def test_reading_of_curve_that_diverges_at_once_finds_no_descent(reading: Callable[[Sweep], float | None]) -> None:
    value = reading(make_sweep([1.0, 2.0, 50.0, 900.0, 1e5, 1e9], ended="diverged"))
    assert value is None or (reading is divergence and value < RATES[5])


def test_longest_descent_can_skip_values() -> None:
    assert longest_descent(np.array([5.0, 9, 4, 8, 3, 7, 2, 6])) in [(0, 6), (1, 7)]
    assert longest_descent(np.array([1.0, 9, 8, 0, 7, 6, 5, 2])) == (1, 7)
    assert longest_descent(np.array([1.0, 2, 3])) in [(0, 0), (1, 1), (2, 2)]


def test_combine_readings_gives_median_and_range() -> None:
    suggestion = combine_readings("valley", [1e-3, None, 1e-1, 1e-2])
    assert (suggestion.value, suggestion.low, suggestion.high) == (1e-2, 1e-3, 1e-1)
    assert str(suggestion) == "valley: 0.01 (0.001 to 0.1)"
    assert combine_readings("valley", [1e-3, 1e-1]).value == pytest.approx(1e-2)


@pytest.mark.parametrize("readings", [[], [None], [None, None, 1.0]])
def test_combine_readings_of_minority_of_sweeps_is_none(readings: list[float | None]) -> None:
    suggestion = combine_readings("slide", readings)
    assert (suggestion.value, suggestion.low, suggestion.high, suggestion.each) == (None, None, None, tuple(readings))
    assert str(suggestion) == "slide: none"


def test_suggestions_hold_every_reading_with_its_interval() -> None:
    all_suggestions = suggestions("lr", [u_curve(0.02, seed) for seed in range(3)])
    names = [suggestion.name for suggestion in all_suggestions]
    assert names == ["steepest", "valley", "slide", "minimum", "divergence"]
    assert all(
        suggestion.low <= suggestion.value <= suggestion.high and len(suggestion.each) == 3
        for suggestion in all_suggestions
    )
