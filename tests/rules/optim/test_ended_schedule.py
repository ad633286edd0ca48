"""Tests of O507 for a schedule that had ended before the loop, since its state was loaded."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup

LENGTH, EPOCHS = 3, 4
ENDED = "The state of a schedule that had ended was loaded."


def train(*, loads_schedule: bool) -> list[Finding]:
    """Train with a schedule that is stepped once per epoch until it ends."""
    torch.manual_seed(0)
    network = mlp(8, 16, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    scheduler = CosineAnnealingLR(optimizer, T_max=LENGTH)
    for _ in range(LENGTH):
        optimizer.step()
        scheduler.step()
    saved = {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    scheduler = CosineAnnealingLR(optimizer, T_max=LENGTH)
    if loads_schedule:
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
    setup = training_setup(network, rings(), rings(256, seed=1), nn.CrossEntropyLoss())
    debugger = Debugger(network, setup.train_loader, loss_fn=setup.loss_fn, optimizer=optimizer, scheduler=scheduler)
    with debugger.watch(final_tests=False):
        for _ in range(EPOCHS):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()
            if scheduler.last_epoch < LENGTH:
                scheduler.step()
    return [finding for finding in debugger.findings if finding.cause == ENDED]


@pytest.mark.parametrize("loads_schedule", [True, False])
def test_schedule_that_had_ended_is_named_with_the_line_that_loads_its_state(loads_schedule: bool) -> None:
    findings = train(loads_schedule=loads_schedule)
    assert [finding.code for finding in findings] == (["O507"] if loads_schedule else [])
    assert all("step 3 of 3" in finding.message for finding in findings)
    assert all("scheduler.load_state_dict(" in (finding.where.source or "") for finding in findings)
