"""Tests of how a sweep ends: by divergence, by a loss that is not finite, by an interrupt, or by Stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import pytest

from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.tools.lr_range.result import running_view
from nbdebug.tools.lr_range.sweep import SweepPlan, choose_optimizers
from nbdebug.tools.lr_range.tool import RangeTest
from nbdebug.views.live import LiveScreen
from tests.tools.lr_range.setups import ring_classifier, run_lr_range, step_fn_with_error
from tests.tools.stopping_screens import StopAfterRows


def setup_with_losses(loss_at: Callable[[int], float]) -> Setup:
    """A setup whose loss at each step of a sweep is ``loss_at(step)``."""
    setup = classifier()
    steps: Iterator[int] = iter(range(10_000))
    parameter = next(setup.model.parameters())
    setup.step_fn = lambda _: parameter.sum() * 0 + loss_at(next(steps) % 100)
    return setup


def u_curve(step: int) -> float:
    """A loss that falls around step 50 and rises from step 75."""
    return 2 - 1.5 / (1 + math.exp(-(step - 50) / 4)) + 0.3 * max(0, step - 75) ** 1.5


@pytest.mark.parametrize("step", [0, 1, 4, 50, 99])
@pytest.mark.parametrize("non_finite", [math.nan, math.inf, -math.inf])
def test_sweep_non_finite_loss_ends_sweep_and_is_left_out(step: int, non_finite: float) -> None:
    setup = setup_with_losses(lambda current_step: non_finite if current_step == step else 2 - current_step / 200)
    result = run_lr_range(setup, seeds=1)
    assert result.sweeps[0].ended == "not finite"
    assert len(result.sweeps[0].losses) == step
    assert result.steps == step + 1
    assert all(map(math.isfinite, (*result.sweeps[0].losses, *result.sweeps[0].smooth)))
    assert any("not finite after" in note for note in result.notes)
    assert str(result)


@pytest.mark.parametrize("value", [2.3, 0.0, -5.0])
def test_lr_range_constant_loss_is_flat(value: float) -> None:
    result = run_lr_range(setup_with_losses(lambda _: value), seeds=2)
    assert result.verdict == "flat"
    assert result.suggestion is None
    assert result.reasons
    assert [sweep.ended for sweep in result.sweeps] == ["finished"] * 2
    assert result.sweeps[0].smooth == pytest.approx((value,) * 100)


def test_lr_range_negative_losses_give_same_suggestion() -> None:
    positive, negative = (
        run_lr_range(setup_with_losses(lambda step, offset=offset: u_curve(step) + offset), seeds=1)
        for offset in (0.0, -40.0)
    )
    assert positive.sweeps[0].values == negative.sweeps[0].values
    assert positive.sweeps[0].ended == negative.sweeps[0].ended == "diverged"
    assert positive.suggestion == pytest.approx(negative.suggestion)


def test_lr_range_spike_at_first_step_barely_moves_suggestion() -> None:
    without_spike = run_lr_range(setup_with_losses(u_curve), seeds=1)
    with_spike = run_lr_range(setup_with_losses(lambda step: 1e4 if step == 0 else u_curve(step)), seeds=1)
    assert with_spike.suggestion == pytest.approx(without_spike.suggestion, rel=0.3)
    assert with_spike.sweeps[0].ended == "diverged"


def test_lr_range_without_gradient_is_flat_and_names_gradient() -> None:
    setup = ring_classifier()
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum() + batch[0].mean()
    result = run_lr_range(setup, seeds=2)
    assert result.verdict == "flat"
    assert "gradient" in result.reasons[0]


def test_range_test_interrupt_under_live_screen_keeps_completed_steps() -> None:
    setup = ring_classifier()
    setup.step_fn = step_fn_with_error(setup, 130, KeyboardInterrupt())
    range_test = RangeTest(setup, SweepPlan(end=1e-2), choose_optimizers(setup, None), None)
    with LiveScreen(running_view(range_test.result(), range_test.plan), time.monotonic, 0.1) as screen:
        range_test.run(screen)
    assert [sweep.ended for sweep in range_test.result().sweeps] == ["finished", "interrupted"]
    assert len(range_test.result().sweeps[1].losses) == 30


def test_range_test_stop_keeps_completed_steps() -> None:
    setup = ring_classifier()
    range_test = RangeTest(setup, SweepPlan(end=1e-2), choose_optimizers(setup, None), None)
    range_test.run(StopAfterRows(130))
    result = range_test.result()
    assert [sweep.ended for sweep in result.sweeps] == ["finished", "stopped"]
    assert [len(sweep.losses) for sweep in result.sweeps] == [100, 30]
