"""Tests of M312: batch normalization over too few samples, and small batches without harm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import rings
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings


def findings(model: nn.Module, x: Tensor, size: int, drop_last: bool = False) -> list[Finding]:
    loader = DataLoader(TensorDataset(x, torch.arange(len(x)) % 3), batch_size=size, drop_last=drop_last)
    return rule_findings(Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), "M312")


def row_network(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), norm, nn.ReLU(), nn.Linear(8, 3))


def image_network(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), norm, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))


ROWS, IMAGES = torch.randn(33, 4), torch.randn(33, 1, 8, 8)


@pytest.mark.parametrize(
    ("model", "x", "size"),
    [
        (row_network(nn.BatchNorm1d(8)), ROWS[:32], 2),
        (image_network(nn.BatchNorm2d(8)), IMAGES[:32], 2),
        (image_network(nn.BatchNorm2d(8)), IMAGES[:32], 1),
        (row_network(nn.BatchNorm1d(8, track_running_stats=False)).double(), ROWS[:32].double(), 3),
    ],
)
def test_tiny_batch_batchnorm_over_few_samples_is_warning(model: nn.Module, x: Tensor, size: int) -> None:
    (finding,) = [finding for finding in findings(model, x, size) if finding.severity == "warning"]
    assert finding.where.module == "1"
    assert finding.evidence["samples"] == size


def test_tiny_batch_batchnorm_over_one_value_per_channel_is_error() -> None:
    assert [finding.severity for finding in findings(row_network(nn.BatchNorm1d(8)), ROWS[:32], 1)] == ["error"]


def test_tiny_batch_batchnorm_with_last_batch_of_one_is_error_unless_dropped() -> None:
    assert [finding.severity for finding in findings(row_network(nn.BatchNorm1d(8)), ROWS, 16)] == ["error"]
    assert findings(row_network(nn.BatchNorm1d(8)), ROWS, 16, drop_last=True) == []
    assert findings(image_network(nn.BatchNorm2d(8)), IMAGES, 16) == []


@pytest.mark.parametrize(
    ("model", "x", "size"),
    [
        (row_network(nn.BatchNorm1d(8)), ROWS[:32], 8),
        (row_network(nn.LayerNorm(8)), ROWS, 1),
        (image_network(nn.GroupNorm(2, 8)), IMAGES, 2),
        (image_network(nn.BatchNorm2d(8).eval()), IMAGES, 2),
        (image_network(nn.InstanceNorm2d(8)), IMAGES, 2),
    ],
)
def test_tiny_batch_batchnorm_ignores_larger_batches_and_other_normalizations(
    model: nn.Module, x: Tensor, size: int
) -> None:
    assert findings(model, x, size) == []


def network_with_momentum(value: float | None) -> nn.Module:
    return row_network(nn.BatchNorm1d(8, momentum=value))


@pytest.mark.parametrize("value", [0.0, 0.99, 1.0])
def test_tiny_batch_batchnorm_with_momentum_near_zero_or_one_is_warning(value: float) -> None:
    (finding,) = findings(network_with_momentum(value), ROWS[:32], 16)
    assert (finding.severity, finding.where.module) == ("warning", "1")
    assert f"{value:g}" in finding.message


def network_with_fixed_statistics() -> nn.Module:
    model = network_with_momentum(0.0)
    model[1].running_mean.fill_(0.3)
    return model


@pytest.mark.parametrize(
    "model",
    [
        network_with_momentum(0.1),
        network_with_momentum(0.5),
        network_with_momentum(None),
        network_with_fixed_statistics(),
    ],
)
def test_tiny_batch_batchnorm_ignores_usual_momentum_and_trained_statistics(model: nn.Module) -> None:
    assert findings(model, ROWS[:32], 16) == []


def train_in_watch(model: nn.Module, batches_of_evaluation: list[Tensor]) -> list[Finding]:
    """Watch ten epochs, each with an evaluation in train mode, and return the findings of M312."""
    torch.manual_seed(0)
    x, y = rings()
    loader = DataLoader(TensorDataset(4 * x + 10, y), batch_size=32, shuffle=True)
    optimizer, loss_fn = torch.optim.Adam(model.parameters(), lr=1e-2), nn.CrossEntropyLoss()
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch():
        for _ in range(10):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                for x in batches_of_evaluation:
                    model(x)
    return [finding for finding in debugger.findings if finding.code == "M312"]


def wide_network(momentum: float) -> nn.Module:
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32, momentum=momentum), nn.ReLU())
    return nn.Sequential(first, nn.Linear(32, 2))


def test_running_statistics_that_hardly_move_are_reported_with_their_initial_share() -> None:
    model = wide_network(1e-4)
    (finding,) = train_in_watch(model, [])
    updates = int(model[0][1].num_batches_tracked)
    assert finding.evidence["running loss"] > 1.5 * finding.evidence["batch loss"]
    assert f"{(1 - 1e-4) ** updates:.0%} of the running statistics" in finding.cause


def test_running_statistics_of_other_batches_are_reported_without_blaming_the_momentum() -> None:
    (finding,) = train_in_watch(wide_network(0.1), [rings()[0][:64] * 20 + 50] * 8)
    assert "differ from the others" in finding.cause
    assert train_in_watch(wide_network(0.1), []) == []
