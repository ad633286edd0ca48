"""How a sweep ends: by losses that are given, by blocked gradients, by Stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange
from nbdebug.tools.lr_range.result import running_view
from nbdebug.tools.lr_range.sweep import SweepPlan, choose_optimizers
from nbdebug.tools.lr_range.tool import RangeTest
from nbdebug.views.live import LiveScreen, Screen


def lr_range(setup: Setup, **asked: Any) -> LrRange:
    """The range test of a set-up."""
    return Debugger.of(setup).lr_range(**asked)


def learner() -> Setup:
    """A classifier that has much to learn."""
    return training_setup(mlp(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss())


def scripted(loss_at: Callable[[int], float]) -> Setup:
    """A program whose losses are given by the number of the step."""
    setup = classifier()
    numbers: Iterator[int] = iter(range(10_000))
    anchor = next(setup.model.parameters())
    setup.step_fn = lambda _: anchor.sum() * 0 + loss_at(next(numbers) % 100)
    return setup


@pytest.mark.parametrize("step", [0, 1, 4, 50, 99])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_sweep_at_once_and_is_left_out(step: int, bad: float) -> None:
    setup = scripted(lambda at: bad if at == step else 2 - at / 200)
    found = lr_range(setup, seeds=1)
    assert found.sweeps[0].ended == "not finite"
    assert len(found.sweeps[0].losses) == step
    assert found.steps == step + 1
    assert all(map(math.isfinite, (*found.sweeps[0].losses, *found.sweeps[0].smooth)))
    assert any("not finite after" in one for one in found.notes)
    assert str(found)


@pytest.mark.parametrize("value", [2.3, 0.0, -5.0])
def test_a_constant_loss_is_flat(value: float) -> None:
    found = lr_range(scripted(lambda _: value), seeds=2)
    assert found.verdict == "flat"
    assert found.suggestion is None
    assert found.reasons
    assert [one.ended for one in found.sweeps] == ["finished"] * 2
    assert found.sweeps[0].smooth == pytest.approx((value,) * 100)


def test_negative_losses_are_swept_like_any_other() -> None:
    def loss(at: int) -> float:
        return 2 - 1.5 / (1 + math.exp(-(at - 50) / 4)) + 0.3 * max(0, at - 75) ** 1.5

    above, below = (lr_range(scripted(lambda at, by=shift: loss(at) + by), seeds=1) for shift in (0.0, -40.0))
    assert above.sweeps[0].values == below.sweeps[0].values
    assert above.sweeps[0].ended == below.sweeps[0].ended == "diverged"
    assert above.suggestion == pytest.approx(below.suggestion)


def test_a_spike_at_the_first_step_moves_nothing() -> None:
    def loss(at: int) -> float:
        return 2 - 1.5 / (1 + math.exp(-(at - 50) / 4)) + 0.3 * max(0, at - 75) ** 1.5

    plain = lr_range(scripted(loss), seeds=1)
    spiked = lr_range(scripted(lambda at: 1e4 if at == 0 else loss(at)), seeds=1)
    assert spiked.suggestion == pytest.approx(plain.suggestion, rel=0.3)
    assert spiked.sweeps[0].ended == "diverged"


def test_blocked_gradients_are_told() -> None:
    setup = learner()
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum() + batch[0].mean()
    found = lr_range(setup, seeds=2)
    assert found.verdict == "flat"
    assert "gradient" in found.reasons[0]


def test_an_interrupt_under_a_live_view_keeps_what_there_is() -> None:
    setup = learner()
    calls: list[int] = []

    def step_fn(batch: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 131:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step_fn
    trial = RangeTest(setup, SweepPlan(end=1e-2), choose_optimizers(setup, None), None)
    with LiveScreen(running_view(trial.result(), trial.plan), time.monotonic, 0.1) as screen:
        trial.run(screen)
    assert [one.ended for one in trial.result().sweeps] == ["finished", "interrupted"]
    assert len(trial.result().sweeps[1].losses) == 30


def test_stop_keeps_what_there_is() -> None:
    class Pressed(Screen):
        rows = 0

        def append(self, row: Any) -> None:
            self.rows += 1

        @property
        def stopped(self) -> bool:
            return self.rows >= 130

    setup = learner()
    trial = RangeTest(setup, SweepPlan(end=1e-2), choose_optimizers(setup, None), None)
    trial.run(Pressed())
    found = trial.result()
    assert [one.ended for one in found.sweeps] == ["finished", "stopped"]
    assert [len(one.losses) for one in found.sweeps] == [100, 30]
