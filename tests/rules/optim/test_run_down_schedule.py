"""Tests of O507 for a schedule that had run down before the loop and is stepped in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LinearLR

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup

EPOCHS = 4


def run_down(optimizer: torch.optim.Optimizer, steps: int) -> LambdaLR:
    return LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))


def resume(schedule: Callable[..., Any], length: int, restored: list[str], moved: int = 0) -> list[Finding]:
    """Train with a schedule that steps with every batch, after one of ``length`` steps had come to its end."""
    torch.manual_seed(0)
    network = mlp(8, 16, 2)
    earlier = torch.optim.SGD(network.parameters(), lr=0.05)
    plan = schedule(earlier, length)
    for _ in range(length):
        earlier.step()
        plan.step()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    setup = training_setup(network, rings(), rings(256, seed=1), nn.CrossEntropyLoss())
    scheduler = schedule(optimizer, EPOCHS * len(setup.train_loader))
    if "optimizer" in restored:
        optimizer.load_state_dict(earlier.state_dict())
    if "scheduler" in restored:
        scheduler.load_state_dict(plan.state_dict())
    for _ in range(moved):
        optimizer.step()
        scheduler.step()
    debugger = Debugger(network, setup.train_loader, loss_fn=setup.loss_fn, optimizer=optimizer, scheduler=scheduler)
    with debugger.watch(final_tests=False):
        for _ in range(EPOCHS):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
                scheduler.step()
    return [finding for finding in debugger.findings if finding.code in ("O502", "O507")]


def falling(optimizer: torch.optim.Optimizer, steps: int) -> LinearLR:
    return LinearLR(optimizer, 1.0, 1e-9, total_iters=steps)


@pytest.mark.parametrize(("schedule", "length"), [(run_down, 60), (run_down, 90), (falling, 60)])
def test_schedule_that_had_run_down_is_named_with_the_line_that_loads_its_state(
    schedule: Callable[..., Any], length: int
) -> None:
    (finding,) = resume(schedule, length, ["optimizer", "scheduler"])
    assert (finding.code, f"stood at step {length} before the loop" in finding.message) == ("O507", True)
    assert "scheduler.load_state_dict(" in (finding.where.source or "")


@pytest.mark.parametrize(("restored", "moved"), [([], 0), ([], 5)], ids=["a new one", "in its course"])
def test_schedule_that_has_not_run_down_is_quiet(restored: list[str], moved: int) -> None:
    assert not resume(run_down, 60, restored, moved)
