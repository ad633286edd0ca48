"""Tests of M312: batch normalization over too few samples, and small batches without harm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
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
