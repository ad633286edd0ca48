"""Tests of O517 on loops: updates that low-precision weights round away."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.loop_monitor.rounded_updates import UpdateSample
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    TrainFunction,
    batches,
    event_findings,
    source_line,
    summarize_loop,
    train_plainly,
)


def low_precision_setup(rate: float, optimizer: Any = torch.optim.Adam, dtype: torch.dtype = torch.bfloat16) -> Setup:
    x, y = points()
    model = network(3).to(dtype)
    loader = DataLoader(TensorDataset(x.to(dtype), y), batch_size=16)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer(model.parameters(), lr=rate),))


def o517_findings(train: TrainFunction, setup: Setup) -> list[Finding]:
    return [finding for finding in event_findings(train, setup) if finding.code == "O517"]


def test_update_lost_to_precision_on_small_steps_in_bfloat16_is_an_error() -> None:
    (finding,) = o517_findings(train_plainly, low_precision_setup(1e-5))
    assert finding.severity == "error"
    assert finding.where.parameter in ("0.weight", "2.weight")
    assert "over 9 inspected steps" in finding.message


@pytest.mark.parametrize(
    "setup",
    [
        low_precision_setup(3e-2),
        low_precision_setup(1e-5, dtype=torch.float32),
        low_precision_setup(0.5, torch.optim.SGD),
    ],
    ids=["large steps", "float32", "sgd"],
)
def test_update_lost_to_precision_on_representable_steps_finds_nothing(setup: Setup) -> None:
    assert not o517_findings(train_plainly, setup)


def test_rounded_updates_count_changed_values_exactly() -> None:
    setup = low_precision_setup(1e-3)
    initial_weights = {name: p.detach().clone() for name, p in setup.model.named_parameters()}
    optimizer, (x, y) = setup.optimizers[0], next(iter(setup.train_loader))

    def train_one_step(setup: Setup) -> None:
        setup.loss_fn(setup.model(x), y).backward()
        optimizer.step()

    for name, samples in summarize_loop(train_one_step, setup).rounded_updates.items():
        p = setup.model.get_parameter(name)
        has_gradient = p.grad != 0
        is_changed = has_gradient & (p != initial_weights[name])
        assert samples == (UpdateSample(1e-3, int(has_gradient.sum()), int(is_changed.sum())),)


def test_update_lost_to_precision_on_float32_master_copy_finds_nothing() -> None:
    setup = low_precision_setup(1e-5)
    master_copy = copy.deepcopy(setup.model).float()
    setup.optimizers = (torch.optim.Adam(master_copy.parameters(), lr=1e-5),)

    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            setup.loss_fn(setup.model(x), y).backward()
            with torch.no_grad():
                for low, full in zip(setup.model.parameters(), master_copy.parameters(), strict=True):
                    full.grad, low.grad = low.grad.float(), None
                setup.optimizers[0].step()
                for low, full in zip(setup.model.parameters(), master_copy.parameters(), strict=True):
                    low.copy_(full)

    assert not o517_findings(train, setup)


class OwnMomentum(torch.optim.Optimizer):
    """Gradient descent with momentum in float32, whose small steps are added as ``mode`` says."""

    def __init__(self, parameters: Any, lr: float, mode: str) -> None:
        super().__init__(parameters, {"lr": lr})
        self.mode = mode

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move all parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                velocity = state.setdefault("velocity", torch.zeros_like(p, dtype=torch.float32))
                self.move(p, state, -group["lr"] * velocity.mul_(0.9).add_(p.grad))

    def move(self, p: Any, state: dict[str, Any], change: Any) -> None:
        """Add a change to a parameter."""
        if self.mode == "added":
            p.add_(change.to(p.dtype))
        elif self.mode == "copied":
            p.copy_(p.float() + change)
        elif self.mode == "master":
            p.copy_(state.setdefault("master", p.float()).add_(change))
        elif self.mode == "kahan":
            lost, before = state.setdefault("lost", torch.zeros_like(change)), p.float()
            p.copy_(before + change + lost)
            lost.add_(change - (p.float() - before))
        else:
            bits = (p.float() + change).view(torch.int32) + torch.randint(0, 1 << 16, p.shape, dtype=torch.int32)
            p.copy_((bits & -65536).view(torch.float32))


def train_for_long(setup: Setup) -> None:
    train_plainly(setup, 70)


def move_by_hand(setup: Setup) -> None:
    for x, y in batches(setup, 70):
        setup.model.zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        with torch.no_grad():
            for p in setup.model.parameters():
                p -= 1e-2 * p.grad


def without_optimizer() -> Setup:
    setup = low_precision_setup(1e-4)
    setup.optimizers = ()
    return setup


@pytest.mark.parametrize(
    ("train", "setup"),
    [
        *((train_for_long, low_precision_setup(1e-3, partial(OwnMomentum, mode=mode))) for mode in ("added", "copied")),
        (move_by_hand, without_optimizer()),
    ],
    ids=["added", "copied", "no optimizer"],
)
def test_update_lost_to_precision_in_own_optimizer_is_an_error(train: TrainFunction, setup: Setup) -> None:
    (finding,) = o517_findings(train, setup)
    assert finding.severity == "error"
    assert "windows of up to 128 steps" in finding.message
    if setup.optimizers:
        assert source_line(finding) in ("p.add_(change.to(p.dtype))", "p.copy_(p.float() + change)")


@pytest.mark.parametrize("mode", ["master", "kahan", "stochastic"])
def test_update_lost_to_precision_in_compensating_optimizer_finds_nothing(mode: str) -> None:
    assert not o517_findings(train_for_long, low_precision_setup(1e-3, partial(OwnMomentum, mode=mode)))
