"""Tests of D117 on loops: epochs that start with the same batches although their sampler shuffles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings

DATA = TensorDataset(*points())


def make_setup(**loader_options: Any) -> Setup:
    model = network(3)
    loader = DataLoader(DATA, 8, **loader_options)
    return Setup(model, loader, loss_fn=F.cross_entropy, optimizers=(torch.optim.SGD(model.parameters(), 0.1),))


def make_distributed_setup(shuffle: bool = True) -> Setup:
    sampler: Sampler[int] = DistributedSampler(DATA, num_replicas=2, rank=0, shuffle=shuffle)
    return make_setup(sampler=sampler)


def d117_findings(setup: Setup, sets_epoch: bool = False, seeds_epoch: bool = False, epochs: int = 5) -> list[Finding]:
    def train(setup: Setup) -> None:
        for epoch in range(epochs):
            if sets_epoch:
                setup.train_loader.sampler.set_epoch(epoch)
            if seeds_epoch:
                torch.manual_seed(0)
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                F.cross_entropy(setup.model(x), y).backward()
                setup.optimizers[0].step()

    return [finding for finding in all_findings(train, setup) if finding.code == "D117"]


def test_repeated_randomness_on_distributed_sampler_without_set_epoch_fires() -> None:
    (finding,) = d117_findings(make_distributed_setup())
    assert finding.severity == "warning"
    assert "set_epoch" in finding.fix
    assert d117_findings(make_distributed_setup(), sets_epoch=True) == []
    assert d117_findings(make_distributed_setup(), epochs=3) == []


def test_repeated_randomness_on_seed_set_in_each_epoch_fires() -> None:
    (finding,) = d117_findings(make_setup(shuffle=True), seeds_epoch=True)
    assert "All 5 epochs start" in finding.message
    assert d117_findings(make_setup(shuffle=True)) == []


@pytest.mark.parametrize("build", [make_setup, lambda: make_distributed_setup(shuffle=False)], ids=["plain", "sampler"])
def test_repeated_randomness_on_unshuffled_order_finds_nothing(build: Callable[[], Setup]) -> None:
    assert d117_findings(build()) == []
