"""Tests of ``apply`` and of the code to paste of a range test."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from tests.tools.lr_range.setups import group_rates, ring_classifier, sgd_and_adam, two_group_classifier


def scheduler_from_code(setup: Setup, code: str) -> Any:
    """The schedule that the pasted code creates."""
    optimizers = list(setup.optimizers)
    names: dict[str, Any] = {"torch": torch, "train_loader": setup.train_loader, "optimizers": optimizers}
    exec(code, {**names, "optimizer": optimizers[0]}, names)
    return names["scheduler"]


def test_apply_sets_recommended_rate_and_logs_it() -> None:
    setup = ring_classifier(lr=1e-6)
    debugger = Debugger.of(setup)
    result = debugger.lr_range()
    assert group_rates(setup) == [1e-6]
    assert debugger.log == []
    assert result.apply() == result.suggestion == group_rates(setup)[0]
    result.apply(0.5)
    assert group_rates(setup) == [0.5]
    assert debugger.log == [
        f"lr of Adam: 1e-06 → {result.suggestion:.3g}, at your request",
        f"lr of Adam: {result.suggestion:.3g} → 0.5, at your request",
    ]


def test_apply_keeps_ratios_of_groups_unless_swept_at_same_rate() -> None:
    setup = two_group_classifier()
    debugger = Debugger.of(setup)
    debugger.lr_range(steps=10).apply(0.5)
    assert group_rates(setup) == pytest.approx([0.5, 0.1])
    debugger.lr_range(steps=10, groups="same").apply(0.3)
    assert group_rates(setup) == [0.3, 0.3]


@pytest.mark.parametrize(
    "make_schedule",
    [
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=50),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 10)),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50),
        lambda optimizer: torch.optim.lr_scheduler.SequentialLR(
            optimizer,
            [
                torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=9),
                torch.optim.lr_scheduler.StepLR(optimizer, 30),
            ],
            milestones=[10],
        ),
    ],
    ids=["one cycle", "warm-up from zero", "cosine", "sequence"],
)
def test_apply_under_schedule_sets_peak_rate(make_schedule: Any) -> None:
    setup = ring_classifier(lr=0.1)
    setup.scheduler = make_schedule(setup.optimizers[0])
    result = Debugger.of(setup).lr_range(steps=10)
    assert result.current == pytest.approx(0.1)
    result.apply(0.3)
    scheduled_rates = []
    for _ in range(49):
        scheduled_rates += group_rates(setup)
        setup.optimizers[0].step()
        setup.scheduler.step()
    assert max(scheduled_rates) == pytest.approx(0.3, rel=0.01)


def test_apply_sets_momentum_and_weight_decay() -> None:
    setup = ring_classifier(lr=1e-2)
    debugger = Debugger.of(setup)
    debugger.momentum_range(steps=10).apply(0.8)
    debugger.weight_decay_range(steps=10).apply(0.01)
    group = setup.optimizers[0].param_groups[0]
    assert (group["betas"], group["weight_decay"]) == ((0.8, 0.999), 0.01)
    assert [entry.split(" ")[0] for entry in debugger.log] == ["momentum", "weight_decay"]


def test_code_of_momentum_and_weight_decay_is_optimizer_option() -> None:
    setup = ring_classifier(lr=1e-2)
    momentum, decay = Debugger.of(setup).momentum_range(), Debugger.of(setup).weight_decay_range()
    options = eval(f"dict({momentum.code or 'betas=(0.5, 0.999)'}, {decay.code or 'weight_decay=0.1'})")
    assert torch.optim.Adam(setup.model.parameters(), **options).defaults["betas"][1] == 0.999
    assert options["betas"][0] == pytest.approx(momentum.suggestion or 0.5, rel=0.01)


def test_apply_invalid_value_or_nothing_to_set_raises_setup_error() -> None:
    setup = ring_classifier(lr=1e-2)
    result = Debugger.of(setup).lr_range(steps=10)
    for value in (-1.0, float("nan"), "0.1", True):
        with pytest.raises(SetupError, match="expected a number of at least 0"):
            result.apply(value)  # type: ignore[arg-type]
    setup.optimizers = ()
    with pytest.raises(SetupError, match="used no optimizer of yours"):
        Debugger.of(setup).lr_range().apply()
    setup.model.requires_grad_(True)
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum()
    with pytest.raises(SetupError, match="there is no recommended lr; expected a value"):
        Debugger.of(setup).lr_range().apply()


@pytest.mark.parametrize(
    "make_setup", [lambda: ring_classifier(lr=1e-2), two_group_classifier], ids=["one group", "two groups"]
)
def test_code_makes_schedule_that_peaks_at_recommended_rates(make_setup: Any) -> None:
    for attribute in ("code", "warmup_code"):
        setup = make_setup()
        result = Debugger.of(setup).lr_range()
        expected = list(chain.from_iterable(result.setter.group_values(result.one_cycle_peak)))
        scheduler = scheduler_from_code(setup, getattr(result, attribute))
        scheduled_rates = []
        for _ in range(10 * len(setup.train_loader) - 1):
            scheduled_rates.append(group_rates(setup))
            setup.optimizers[0].step()
            scheduler.step()
        assert [max(rates) for rates in zip(*scheduled_rates, strict=True)] == pytest.approx(expected, rel=0.1)
        assert group_rates(setup)[0] < 0.01 * expected[0]


def test_code_for_several_optimizers_has_a_line_for_each() -> None:
    setup = ring_classifier(lr=1e-2)
    setup.optimizers = sgd_and_adam(setup)
    result = Debugger.of(setup).lr_range(end=1000)
    assert [line.split("(")[1].split(",")[0] for line in result.code.split("\n")] == ["optimizers[0]", "optimizers[1]"]
    assert scheduler_from_code(setup, result.code).optimizer is setup.optimizers[1]


def test_code_without_recommendation_is_empty() -> None:
    setup = ring_classifier(lr=1e-2)
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum()
    result = Debugger.of(setup).lr_range(steps=10)
    assert (result.suggestion, result.code, result.warmup_code) == (None, "", "")
