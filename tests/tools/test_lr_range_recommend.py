"""Which rate is recommended, on curves that are known."""

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


def sweep(loss: np.ndarray, seed: int = 0, noise: float = 0.0, ended: SweepEnd = "finished") -> Sweep:
    """A sweep with such losses, and noise on them."""
    found = loss + noise * np.random.default_rng(seed).standard_normal(len(loss))
    return Sweep(seed, tuple(VALUES[: len(loss)].tolist()), tuple(found.tolist()), smooth_curve(found.tolist()), ended)


def valley(half: float = 0.01, wall: float = 1.0) -> np.ndarray:
    """Half of the way down at one rate, all of it lost again at another, beyond which the loss goes on to rise."""
    loss = 1 + 1 / (1 + VALUES / half) + (VALUES / wall) ** 2
    return loss[: int(np.argmax(loss > 5)) or None]


def three(loss: np.ndarray, noise: float = 0.0, ended: SweepEnd = "diverged", first: int = 0) -> list[Sweep]:
    """Three sweeps of one curve."""
    return [sweep(loss, first + seed, noise, ended) for seed in range(3)]


def advice(sweeps: list[Sweep], quantity: Quantity = "lr") -> Recommendation:
    """What they come to."""
    return recommend(quantity, sweeps, STEPS)


def value(found: Recommendation) -> float:
    """The recommended value."""
    assert found.recommended is not None
    assert found.recommended.value is not None
    return found.recommended.value


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_a_valley_gives_a_rate_on_its_way_down(noise: float) -> None:
    found = advice(three(valley(), noise))
    assert found.verdict == "clear"
    assert 0.003 < value(found) < 0.1
    assert found.recommended is not None
    assert found.recommended.low < found.recommended.value < found.recommended.high


@pytest.mark.parametrize("factor", [0.01, 0.1, 10.0])
def test_a_valley_at_other_rates_gives_as_much_of_another_rate(factor: float) -> None:
    here, there = (value(advice(three(valley(0.01 * by, 0.4 * by)))) for by in (1.0, factor))
    assert abs(log(there / here / factor)) < 0.25


@pytest.mark.parametrize(("times", "plus"), [(1000.0, 0.0), (1e-3, 0.0), (1.0, -50.0), (1.0, 50.0)])
def test_neither_the_unit_nor_the_sign_of_the_loss_matters(times: float, plus: float) -> None:
    noisy = [sweep(valley(), seed, 0.02).losses for seed in range(3)]
    here, there = (
        advice([sweep(a * np.array(one) + b, ended="diverged") for one in noisy]) for a, b in ((1, 0), (times, plus))
    )
    assert value(there) == pytest.approx(value(here), rel=0.01)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 0.1, 100.0])
@pytest.mark.parametrize("first", range(0, 30, 3))
def test_a_loss_that_stays_gives_no_rate(noise: float, first: int) -> None:
    found = advice(three(np.full(STEPS, 2.0), noise, "finished", first))
    assert (found.verdict, found.recommended) == ("flat", None)


@pytest.mark.parametrize("first", range(0, 30, 3))
def test_a_loss_that_only_rises_gives_no_rate(first: int) -> None:
    found = advice(three(2 + VALUES[:90] ** 2, 0.1, "diverged", first))
    assert (found.verdict, found.recommended) == ("flat", None)


@pytest.mark.parametrize("first", range(0, 30, 3))
def test_sweeps_together_see_what_each_of_them_hides_in_its_noise(first: int) -> None:
    noise = 0.5
    together = PooledCurve(pool_sweeps(three(valley(), noise, first=first)))
    assert together.has_descent
    assert advice(three(valley(), noise, first=first)).verdict in ("clear", "unclear")


def test_a_sweep_that_never_came_down_does_not_hide_the_others() -> None:
    usual = valley()
    lost = np.concatenate([np.full(40, 2.0), np.geomspace(2, 1e6, 20)])
    alone = value(advice([sweep(usual, 0, 0.02, "diverged")] * 2))
    assert value(advice([*[sweep(usual, 0, 0.02, "diverged")] * 2, sweep(lost, ended="diverged")])) < 2 * alone


def test_sweeps_that_contradict_each_other_give_no_rate() -> None:
    found = advice([sweep(valley(1e-6, 1e-4), ended="diverged"), sweep(valley(0.1, 10.0))])
    assert (found.verdict, found.recommended) == ("unclear", None)
    assert "disagree" in found.reasons[0]


def test_what_was_lost_counts_as_lost_after_the_sweep_ended() -> None:
    long, short = sweep(np.full(50, 2.0), ended="stopped"), sweep(np.geomspace(2, 100, 20), ended="not finite")
    together = pool_sweeps([long, short])
    assert len(together.losses) == 50
    assert min(together.losses[20:]) > 2
    assert pool_sweeps([long, sweep(np.full(20, 4.0), ended="stopped")]).losses[20:] == long.losses[20:]


def test_a_descent_that_is_cut_off_is_said() -> None:
    still = advice(three(1 + 1 / (1 + VALUES), 0.0, "finished"))
    assert "raise end" in still.reasons[0]
    late = [
        Sweep(0, tuple(np.geomspace(0.1, 10, 60).tolist()), tuple(loss), smooth_curve(loss), "finished")
        for loss in [np.geomspace(1, 0.1, 60).tolist()]
    ]
    assert any("raise end" in one for one in advice(late).reasons)


def test_another_quantity_is_taken_where_the_loss_is_lowest() -> None:
    curve = 1 + (np.log(VALUES) - log(0.01)) ** 2 / 100
    assert abs(log(value(advice(three(curve, 0.001, "finished"), "weight_decay")) / 0.01)) < 0.5


def test_the_interval_holds_at_least_a_step_on_either_side() -> None:
    found = advice(three(valley())).recommended
    assert found is not None
    step = exp(log(VALUES[-1] / VALUES[0]) / (STEPS - 1))
    assert found.high / found.value >= 0.99 * step
    assert found.value / found.low >= 0.99 * step


def test_with_momentum_the_rate_lies_further_below_the_bottom() -> None:
    none, half, usual, much = (
        value(recommend("lr", three(valley()), STEPS, momentum=momentum)) for momentum in (0.0, 0.5, 0.9, 0.99)
    )
    assert none > half > usual == much
    assert none / usual == pytest.approx((VALUES[1] / VALUES[0]) ** (log(0.5) / log(0.9)), rel=0.02)


def test_few_steps_and_many_come_to_rates_of_one_order() -> None:
    found = []
    for steps in (40, 100, 400):
        values = np.geomspace(1e-7, 10, steps)
        loss = 1 + 1 / (1 + values / 0.01) + values**2
        loss = loss[: int(np.argmax(loss > 5))]
        one = Sweep(
            0, tuple(values[: len(loss)].tolist()), tuple(loss.tolist()), smooth_curve(loss.tolist()), "diverged"
        )
        found.append(value(recommend("lr", [one], steps)))
    assert max(found) < 10 * min(found)
