"""D117 in a loop: epochs that all begin with the same batches though their sampler shuffles, and orders on purpose."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import noted

DATA = TensorDataset(*points())


def setup(**given: Any) -> Setup:
    model = network(3)
    loader = DataLoader(DATA, 8, **given)
    return Setup(model, loader, loss_fn=F.cross_entropy, optimizers=(torch.optim.SGD(model.parameters(), 0.1),))


def distributed(shuffle: bool = True) -> Setup:
    sampler: Sampler[int] = DistributedSampler(DATA, num_replicas=2, rank=0, shuffle=shuffle)
    return setup(sampler=sampler)


def said(given: Setup, tells: bool = False, seeds: bool = False, epochs: int = 5) -> list[Finding]:
    def train(setup: Setup) -> None:
        for epoch in range(epochs):
            if tells:
                setup.train_loader.sampler.set_epoch(epoch)
            if seeds:
                torch.manual_seed(0)
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                F.cross_entropy(setup.model(x), y).backward()
                setup.optimizers[0].step()

    return [one for one in noted(train, given) if one.code == "D117"]


def test_a_sampler_that_is_never_told_the_epoch() -> None:
    (found,) = said(distributed())
    assert found.severity == "warning"
    assert "set_epoch" in found.fix
    assert said(distributed(), tells=True) == []
    assert said(distributed(), epochs=3) == []


def test_a_seed_at_the_start_of_each_epoch() -> None:
    (found,) = said(setup(shuffle=True), seeds=True)
    assert "All 5 epochs start" in found.message
    assert said(setup(shuffle=True)) == []


@pytest.mark.parametrize("given", [setup, lambda: distributed(shuffle=False)])
def test_an_order_on_purpose_is_left_alone(given: Any) -> None:
    assert said(given()) == []
