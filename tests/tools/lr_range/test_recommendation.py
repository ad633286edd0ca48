"""Tests of the recommended value on known curves."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from nbdebug.tools.lr_range.data import Sweep, SweepEnd
from nbdebug.tools.lr_range.recommendation import Recommendation, recommend
from nbdebug.tools.lr_range.suggestions import PooledCurve, pool_sweeps
from nbdebug.training.divergence import smooth_curve
from nbdebug.training.hyperparameters import Quantity

STEPS = 100
VALUES = np.geomspace(1e-7, 10, STEPS)


def make_sweep(loss: np.ndarray, seed: int = 0, noise: float = 0.0, ended: SweepEnd = "finished") -> Sweep:
    """A sweep with these losses and added noise."""
    losses = loss + noise * np.random.default_rng(seed).standard_normal(len(loss))
    return Sweep(
        seed, tuple(VALUES[: len(loss)].tolist()), tuple(losses.tolist()), smooth_curve(losses.tolist()), ended
    )


def valley(descent_rate: float = 0.01, divergence_rate: float = 1.0) -> np.ndarray:
    """A loss that is halfway down at ``descent_rate`` and back at its start at ``divergence_rate``."""
    loss = 1 + 1 / (1 + VALUES / descent_rate) + (VALUES / divergence_rate) ** 2
    return loss[: int(np.argmax(loss > 5)) or None]


def three_sweeps(
    loss: np.ndarray, noise: float = 0.0, ended: SweepEnd = "diverged", first_seed: int = 0
) -> list[Sweep]:
    """Three sweeps of the same curve, each with its own noise."""
    return [make_sweep(loss, first_seed + seed, noise, ended) for seed in range(3)]


def recommend_rate(sweeps: list[Sweep], quantity: Quantity = "lr") -> Recommendation:
    return recommend(quantity, sweeps, STEPS)


def recommended_value(recommendation: Recommendation) -> float:
    assert recommendation.recommended is not None
    assert recommendation.recommended.value is not None
    return recommendation.recommended.value


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_recommend_valley_gives_rate_on_its_descent(noise: float) -> None:
    recommendation = recommend_rate(three_sweeps(valley(), noise))
    assert recommendation.verdict == "clear"
    assert 0.003 < recommended_value(recommendation) < 0.1
    assert recommendation.recommended is not None
    assert recommendation.recommended.low < recommendation.recommended.value < recommendation.recommended.high


@pytest.mark.parametrize("factor", [0.01, 0.1, 10.0])
def test_recommend_valley_at_scaled_rates_scales_recommendation(factor: float) -> None:
    rate, scaled_rate = (
        recommended_value(recommend_rate(three_sweeps(valley(0.01 * scale, 0.4 * scale)))) for scale in (1.0, factor)
    )
    assert abs(log(scaled_rate / rate / factor)) < 0.25


@pytest.mark.parametrize(("scale", "offset"), [(1000.0, 0.0), (1e-3, 0.0), (1.0, -50.0), (1.0, 50.0)])
def test_recommend_is_independent_of_scale_and_offset_of_loss(scale: float, offset: float) -> None:
    loss_curves = [make_sweep(valley(), seed, 0.02).losses for seed in range(3)]
    original, changed = (
        recommend_rate([make_sweep(a * np.array(losses) + b, ended="diverged") for losses in loss_curves])
        for a, b in ((1, 0), (scale, offset))
    )
    assert recommended_value(changed) == pytest.approx(recommended_value(original), rel=0.01)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 0.1, 100.0])
@pytest.mark.parametrize("first_seed", range(0, 30, 3))
def test_recommend_constant_loss_is_flat(noise: float, first_seed: int) -> None:
    recommendation = recommend_rate(three_sweeps(np.full(STEPS, 2.0), noise, "finished", first_seed))
    assert (recommendation.verdict, recommendation.recommended) == ("flat", None)


@pytest.mark.parametrize("first_seed", range(0, 30, 3))
def test_recommend_rising_loss_is_flat(first_seed: int) -> None:
    recommendation = recommend_rate(three_sweeps(2 + VALUES[:90] ** 2, 0.1, "diverged", first_seed))
    assert (recommendation.verdict, recommendation.recommended) == ("flat", None)


@pytest.mark.parametrize("first_seed", range(0, 30, 3))
def test_pooled_curve_of_noisy_sweeps_has_descent(first_seed: int) -> None:
    noise = 0.5
    curve = PooledCurve(pool_sweeps(three_sweeps(valley(), noise, first_seed=first_seed)))
    assert curve.has_descent
    assert recommend_rate(three_sweeps(valley(), noise, first_seed=first_seed)).verdict in ("clear", "unclear")


def test_recommend_with_one_sweep_without_descent_barely_raises_rate() -> None:
    descent = valley()
    divergence = np.concatenate([np.full(40, 2.0), np.geomspace(2, 1e6, 20)])
    sweeps = [make_sweep(descent, 0, 0.02, "diverged")] * 2
    rate = recommended_value(recommend_rate(sweeps))
    sweeps.append(make_sweep(divergence, ended="diverged"))
    assert recommended_value(recommend_rate(sweeps)) < 2 * rate


def test_recommend_contradictory_sweeps_is_unclear() -> None:
    recommendation = recommend_rate([make_sweep(valley(1e-6, 1e-4), ended="diverged"), make_sweep(valley(0.1, 10.0))])
    assert (recommendation.verdict, recommendation.recommended) == ("unclear", None)
    assert "disagree" in recommendation.reasons[0]


def test_pool_sweeps_keeps_divergence_after_end_of_sweep() -> None:
    long_sweep = make_sweep(np.full(50, 2.0), ended="stopped")
    diverged = make_sweep(np.geomspace(2, 100, 20), ended="not finite")
    pooled = pool_sweeps([long_sweep, diverged])
    assert len(pooled.losses) == 50
    assert min(pooled.losses[20:]) > 2
    stopped = make_sweep(np.full(20, 4.0), ended="stopped")
    assert pool_sweeps([long_sweep, stopped]).losses[20:] == long_sweep.losses[20:]


def test_recommend_descent_cut_off_by_end_advises_to_raise_end() -> None:
    recommendation = recommend_rate(three_sweeps(1 + 1 / (1 + VALUES), 0.0, "finished"))
    assert "raise end" in recommendation.reasons[0]
    losses = np.geomspace(1, 0.1, 60).tolist()
    late_sweep = Sweep(0, tuple(np.geomspace(0.1, 10, 60).tolist()), tuple(losses), smooth_curve(losses), "finished")
    assert any("raise end" in reason for reason in recommend_rate([late_sweep]).reasons)


def test_recommend_weight_decay_is_value_of_lowest_loss() -> None:
    curve = 1 + (np.log(VALUES) - log(0.01)) ** 2 / 100
    recommendation = recommend_rate(three_sweeps(curve, 0.001, "finished"), "weight_decay")
    assert abs(log(recommended_value(recommendation) / 0.01)) < 0.5


def test_recommend_interval_spans_at_least_a_step_on_either_side() -> None:
    recommended = recommend_rate(three_sweeps(valley())).recommended
    assert recommended is not None
    step = exp(log(VALUES[-1] / VALUES[0]) / (STEPS - 1))
    assert recommended.high / recommended.value >= 0.99 * step
    assert recommended.value / recommended.low >= 0.99 * step


def test_recommend_with_momentum_lowers_rate() -> None:
    without, half, typical, high = (
        recommended_value(recommend("lr", three_sweeps(valley()), STEPS, momentum=momentum))
        for momentum in (0.0, 0.5, 0.9, 0.99)
    )
    assert without > half > typical == high
    assert without / typical == pytest.approx((VALUES[1] / VALUES[0]) ** (log(0.5) / log(0.9)), rel=0.02)


def test_recommend_rate_has_same_order_for_few_and_many_steps() -> None:
    rates = []
    for steps in (40, 100, 400):
        values = np.geomspace(1e-7, 10, steps)
        loss = 1 + 1 / (1 + values / 0.01) + values**2
        loss = loss[: int(np.argmax(loss > 5))]
        sweep = Sweep(
            0, tuple(values[: len(loss)].tolist()), tuple(loss.tolist()), smooth_curve(loss.tolist()), "diverged"
        )
        rates.append(recommended_value(recommend("lr", [sweep], steps)))
    assert max(rates) < 10 * min(rates)
