"""Tests of O507 for a rate that the end of an earlier schedule has left in a loaded state."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import mlp, rings, training_setup

_STEPS = 3


@pytest.mark.parametrize(
    ("steps", "is_reported"), [(_STEPS, True), (1, False), (0, False)], ids=["its end", "its course", "no schedule"]
)
def test_rate_of_an_earlier_schedule_is_named(steps: int, is_reported: bool) -> None:
    torch.manual_seed(0)
    network = mlp(8, 16, 2)
    earlier = torch.optim.SGD(network.parameters(), lr=0.05)
    scheduler = CosineAnnealingLR(earlier, T_max=_STEPS, eta_min=1e-5)
    for _ in range(steps):
        earlier.step()
        scheduler.step()
    resumed = torch.optim.SGD(network.parameters(), lr=0.05)
    resumed.load_state_dict(earlier.state_dict())
    setup = training_setup(network, rings(), rings(256, seed=1), nn.CrossEntropyLoss())
    debugger = Debugger(network, setup.train_loader, loss_fn=setup.loss_fn, optimizer=resumed)
    with debugger.watch(final_tests=False):
        for x, y in setup.train_loader:
            resumed.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            resumed.step()
    findings = [finding for finding in debugger.findings if finding.code == "O507"]
    assert len(findings) == is_reported
