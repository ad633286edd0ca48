"""Tests of the values set at each step of a sweep: in groups, in several optimizers, and under a schedule."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange
from tests.tools.lr_range.setups import (
    group_rates,
    loss_decreased,
    ring_classifier,
    run_lr_range,
    sgd_and_adam,
    two_group_classifier,
)


def run_and_record_rates(setup: Setup, **options: Any) -> tuple[LrRange, list[list[float]]]:
    """The result, and the rates of all groups at each step of the first optimizer."""
    rates: list[list[float]] = []
    handle = setup.optimizers[0].register_step_pre_hook(lambda *_: rates.append(group_rates(setup)))
    result = run_lr_range(setup, **options)
    handle.remove()
    return result, rates


@pytest.mark.parametrize("mode", ["exp", "linear"])
def test_lr_range_values_run_from_start_to_end_in_equal_steps(mode: Any) -> None:
    result, rates = run_and_record_rates(ring_classifier(), start=1e-4, end=1e-2, steps=10, seeds=1, mode=mode)
    assert [rate for (rate,) in rates] == pytest.approx(result.sweeps[0].values)
    assert result.sweeps[0].values[0] == pytest.approx(1e-4)
    assert result.sweeps[0].values[-1] == pytest.approx(1e-2)
    steps = [b / a if mode == "exp" else b - a for (a,), (b,) in pairwise(rates)]
    assert steps == pytest.approx([steps[0]] * 9)


def test_lr_range_groups_option_keeps_ratios_or_sets_same_rate() -> None:
    _, rates = run_and_record_rates(two_group_classifier(0.02), start=1e-4, end=1e-2, steps=10, seeds=1)
    assert [b / a for a, b in rates] == pytest.approx([0.2] * 10)
    _, rates = run_and_record_rates(two_group_classifier(0.02), start=1e-4, end=1e-2, steps=10, seeds=1, groups="same")
    assert [b / a for a, b in rates] == pytest.approx([1.0] * 10)


def test_lr_range_group_with_zero_rate_stays_at_zero_and_is_not_the_reference() -> None:
    setup = two_group_classifier(0.1)
    setup.optimizers[0].param_groups[0]["lr"] = 0.0
    result, rates = run_and_record_rates(setup, start=1e-4, end=1e-2, steps=10, seeds=1)
    assert {a for a, _ in rates} == {0.0}
    assert [b for _, b in rates] == pytest.approx(result.sweeps[0].values)
    assert result.current == 0.1


def test_lr_range_of_two_optimizers_keeps_ratio_of_rates() -> None:
    setup = ring_classifier()
    setup.optimizers = sgd_and_adam(setup)
    result, rates = run_and_record_rates(setup, seeds=1)
    assert [b / a for a, b in rates] == pytest.approx([0.01] * len(rates))
    assert loss_decreased(result)


def test_lr_range_of_tensor_rate_restores_same_tensor() -> None:
    setup = ring_classifier()
    rate = torch.tensor(1e-3)
    setup.optimizers = (torch.optim.Adam(setup.model.parameters(), lr=rate),)
    assert loss_decreased(run_lr_range(setup, seeds=1))
    assert setup.optimizers[0].param_groups[0]["lr"] is rate
    assert rate == torch.tensor(1e-3)


def test_lr_range_with_schedule_reports_peak_rate_and_does_not_step_schedule() -> None:
    setup = ring_classifier(lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(setup.optimizers[0], max_lr=0.5, total_steps=10)
    setup.scheduler = schedule
    result = run_lr_range(setup, seeds=1, steps=20)
    assert result.current == 0.5
    assert schedule.last_epoch == 0
    assert any("schedule is not stepped" in note for note in result.notes)


def test_momentum_and_weight_decay_range_keep_other_settings() -> None:
    setup = ring_classifier(optimizer=None)
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4),)
    settings: list[tuple[float, float, float]] = []

    def record_settings(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        group = optimizer.param_groups[0]
        settings.append((group["lr"], group["momentum"], group["weight_decay"]))

    setup.optimizers[0].register_step_pre_hook(record_settings)
    momentum_range = Debugger.of(setup).momentum_range(steps=10, seeds=1)
    assert [momentum for _, momentum, _ in settings] == pytest.approx([0.9] * 10 + [*momentum_range.sweeps[0].values])
    assert {(lr, decay) for lr, _, decay in settings} == {(0.1, 1e-4)}
    settings.clear()
    decay_range = Debugger.of(setup).weight_decay_range(steps=10, seeds=1)
    assert [decay for _, _, decay in settings] == pytest.approx([1e-4] * 10 + [*decay_range.sweeps[0].values])
    assert {(lr, momentum) for lr, momentum, _ in settings} == {(0.1, 0.9)}
    assert (momentum_range.current, decay_range.current) == (0.9, 1e-4)


def test_momentum_range_of_adam_sweeps_first_beta() -> None:
    setup = ring_classifier()
    betas: list[Any] = []
    setup.optimizers[0].register_step_pre_hook(lambda optimizer, *_: betas.append(optimizer.param_groups[0]["betas"]))
    result = Debugger.of(setup).momentum_range(steps=10, seeds=1)
    assert [first for first, _ in betas] == pytest.approx([0.9] * 10 + [*result.sweeps[0].values])
    assert {second for _, second in betas} == {0.999}
    assert result.current == 0.9
