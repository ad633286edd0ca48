"""Tests of the two schedules: which one the user's scheduler follows, and the rates that are recommended for them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import cos, pi
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.tools.lr_range.schedules import leading_schedule, schedule_rates
from tests.tools.lr_range.setups import ring_classifier

STEPS = 100


def warmup_and_cosine(optimizer: torch.optim.Optimizer) -> Any:
    parts = [lr_scheduler.LinearLR(optimizer, 0.01, total_iters=10), lr_scheduler.CosineAnnealingLR(optimizer, 90)]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[10])


def rising_and_falling_factor(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / 10) * (1 + cos(pi * min(step, STEPS) / STEPS)) / 2
    )


def one_cycle(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.OneCycleLR(optimizer, 0.1, STEPS)


def one_cycle_under_way(optimizer: torch.optim.Optimizer) -> Any:
    scheduler = one_cycle(optimizer)
    for _ in range(60):
        optimizer.step()
        scheduler.step()
    return scheduler


@pytest.mark.parametrize(
    ("make_scheduler", "schedule"),
    [
        (one_cycle, "one-cycle"),
        (one_cycle_under_way, "one-cycle"),
        (warmup_and_cosine, "one-cycle"),
        (rising_and_falling_factor, "one-cycle"),
        (lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 10)), "constant"),
        (lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, STEPS), "constant"),
        (lambda optimizer: lr_scheduler.StepLR(optimizer, 30), "constant"),
        (lr_scheduler.ReduceLROnPlateau, "constant"),
        (lambda _: object(), "constant"),
    ],
)
def test_leading_schedule_follows_rates_and_leaves_scheduler_unchanged(
    make_scheduler: Callable[[Any], Any], schedule: str
) -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1, momentum=0.9)
    scheduler = make_scheduler(optimizer)
    before = deepcopy([optimizer.state_dict(), getattr(scheduler, "state_dict", dict)()])
    assert leading_schedule([scheduler]) == schedule
    assert repr([optimizer.state_dict(), getattr(scheduler, "state_dict", dict)()]) == repr(before)


def test_leading_schedule_without_scheduler_is_constant() -> None:
    assert leading_schedule(()) == "constant"


@pytest.mark.parametrize("steps", [20, 200])
def test_schedule_rates_equal_those_of_torch(steps: int) -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1, momentum=0.9)
    scheduler, rates = lr_scheduler.OneCycleLR(optimizer, 0.1, steps), []
    for step in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step < steps - 1:
            scheduler.step()
    assert schedule_rates("one-cycle", 0.1, steps) == pytest.approx(rates)
    assert schedule_rates("constant", 0.1, steps) == (0.1,) * steps


@pytest.mark.parametrize(
    ("make_scheduler", "leading", "other"),
    [
        (None, "constant", "one-cycle"),
        (one_cycle, "one-cycle", "constant"),
        (warmup_and_cosine, "one-cycle", "constant"),
    ],
)
def test_lr_range_recommends_for_schedule_at_hand_and_apply_uses_it(
    make_scheduler: Any, leading: str, other: str
) -> None:
    setup = ring_classifier(lr=0.1)
    setup.scheduler = make_scheduler(setup.optimizers[0]) if make_scheduler else None
    result = Debugger.of(setup).lr_range()
    assert [rate.schedule for rate in result.rates] == [leading, other]
    assert result.constant_rate
    assert result.one_cycle_peak
    assert result.one_cycle_peak > result.constant_rate
    assert result.suggestion == (result.one_cycle_peak if leading == "one-cycle" else result.constant_rate)
    assert f"max_lr={result.one_cycle_peak:.2g}" in result.code
    assert ("peak" in result.headline) == (leading == "one-cycle")
    assert str(result.rates[1]) in str(result)
    assert str(result.rates[1]) in result.view().html()


@pytest.mark.parametrize(
    ("make_scheduler", "schedules"), [(None, {"constant", "one-cycle"}), (one_cycle, {"one-cycle"})]
)
def test_lr_range_confirm_trains_with_schedule_at_hand(make_scheduler: Any, schedules: set[str]) -> None:
    setup = ring_classifier(lr=1e-3)
    setup.scheduler = make_scheduler(setup.optimizers[0]) if make_scheduler else None
    result = Debugger.of(setup).lr_range(seeds=1, confirm=40)
    assert {run.schedule for run in result.trainings} == schedules
    assert "one-cycle" in result.view().html()


def test_code_of_optimizer_without_momentum_runs() -> None:
    setup = ring_classifier()
    optimizer = torch.optim.SGD(setup.model.parameters(), 0.1)
    setup.optimizers = (optimizer,)
    result = Debugger.of(setup).lr_range()
    assert result.code.endswith("cycle_momentum=False)")
    exec(result.code, {"torch": torch, "optimizer": optimizer, "train_loader": setup.train_loader})


class GrowingResidual(nn.Module):
    """A residual branch with BatchNorm after each layer; the outputs of the network grow with the depth."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second = (nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width)) for _ in range(2))
        self.branch = nn.Sequential(first, nn.ReLU(), second)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.branch(x))


@pytest.mark.parametrize(("make_optimizer", "best"), [(torch.optim.AdamW, 5e-3), (torch.optim.SGD, 5e-2)])
def test_lr_range_confirm_finds_higher_rate_of_growing_residual_network(make_optimizer: Any, best: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(2048, 20)
    y = (torch.tanh(x @ torch.randn(20, 16)) @ torch.randn(16, 5)).argmax(1)
    model = nn.Sequential(nn.Linear(20, 32), *(GrowingResidual(32) for _ in range(4)), nn.Linear(32, 5))
    optimizer = make_optimizer(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(x, y), 64, shuffle=True)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    result = debugger.lr_range(seeds=1, start=1e-6, confirm=60)
    assert result.verdict == "clear"
    assert result.constant_rate
    assert best / 5 <= result.constant_rate <= best * 5
    for rate in result.rates:
        assert rate.proof
        losses = {run.rate: run.final_loss for run in rate.proof.trainings}
        assert rate.value in losses
        assert min(losses) <= rate.value < max(losses)
        assert min(losses.values()) < losses[max(losses)]
