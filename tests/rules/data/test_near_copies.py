"""D108 finds copies that were changed a little, and windows of one series; data that lie close by nature are left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(300, 8, generator=DRAWN)
Y = (X.sum(1) > 0).long()
SERIES = torch.randn(500, 1, generator=DRAWN).cumsum(0)
WINDOWS = torch.stack([SERIES[i : i + 16] for i in range(480)])
NEXT = SERIES[16:496]


def nudged(x: Tensor, times: int = 3) -> Tensor:
    return torch.cat([x + 0.02 * torch.randn(x.shape, generator=DRAWN) for _ in range(times)])


def at_random(x: Tensor, y: Tensor, width: int = 8) -> Setup:
    train, val = random_split(TensorDataset(x, y), [0.8, 0.2], generator=torch.Generator().manual_seed(1))
    return program(train, val, width, y)


def program(train: object, val: object, width: int, y: Tensor) -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(width, 2 if y.dim() == 1 else 1))
    loss_fn = nn.CrossEntropyLoss() if y.dim() == 1 else nn.MSELoss()
    return Setup(model, DataLoader(train, 20, shuffle=True), DataLoader(val, 20), loss_fn=loss_fn)  # type: ignore[arg-type]


def augmented_after() -> Setup:
    train = TensorDataset(nudged(X[:200]), Y[:200].repeat(3))
    return program(train, TensorDataset(X[200:], Y[200:]), 8, Y)


def oversampled() -> Setup:
    rare = (X[:, 0] > 1.5).nonzero().flatten()
    chosen = rare[torch.randint(len(rare), (250,), generator=DRAWN)]
    more = X[chosen] + 0.01 * torch.randn(250, 8, generator=DRAWN)
    return at_random(torch.cat([X, more]), torch.cat([(X[:, 0] > 1.5).long(), torch.ones(250).long()]))


def padded() -> Setup:
    """Sequences of two to thirteen values with zeros before them, the shorter ones of which lie close together."""
    steps = 12 - torch.randint(2, 13, (2400, 1), generator=DRAWN)
    x = torch.randn(2400, 12, generator=DRAWN) * (torch.arange(12) >= steps)
    return at_random(x, x.sum(1, keepdim=True), 12)


def in_time() -> Setup:
    train, val = TensorDataset(WINDOWS[:380], NEXT[:380]), TensorDataset(WINDOWS[396:], NEXT[396:])
    return program(train, val, 16, NEXT)


FAULTY: dict[str, Callable[[], Setup]] = {
    "augmented before the split": lambda: at_random(nudged(X), Y.repeat(3)),
    "oversampled before the split": oversampled,
    "repeated before the split": lambda: at_random(X.repeat(4, 1), Y.repeat(4)),
    "windows split at random": lambda: at_random(WINDOWS, NEXT, 16),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "augmented after the split": augmented_after,
    "windows split in time": in_time,
    "short sequences among zeros": padded,
    "nothing but noise": lambda: at_random(X, Y),
    "points along a line": lambda: at_random(X[:, :1] * torch.ones(8), Y),
    "points in a plane": lambda: at_random(X[:, :2].repeat(1, 4), Y),
    "large clusters": lambda: at_random(X[:4].repeat(75, 1) + 0.05 * X, torch.arange(4).repeat(75) % 2),
}


@pytest.mark.parametrize("name", FAULTY)
def test_copies_are_found(name: str) -> None:
    assert len(fault_messages(FAULTY[name](), "D108")) == 1


@pytest.mark.parametrize("name", HEALTHY)
def test_samples_that_lie_close_by_nature_are_left_alone(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "D108") == []


def test_a_pair_is_named() -> None:
    found: Finding = rule_findings(FAULTY["windows split at random"](), "D108")[0]
    here, there = found.evidence["pairs of train and val"][0]
    assert abs(here - there) > 0 or here == there
    assert found.where.sample == there
