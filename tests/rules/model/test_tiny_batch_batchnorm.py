"""M312: normalizations with too few samples, and small batches that do no harm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.setup import Setup


def found(model: nn.Module, x: Tensor, size: int, drop_last: bool = False) -> list[Finding]:
    loader = DataLoader(TensorDataset(x, torch.arange(len(x)) % 3), batch_size=size, drop_last=drop_last)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss())
    return [one for one in Debugger.of(setup).checkup(select=["M312"]) if one.code == "M312"]


def rows(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), norm, nn.ReLU(), nn.Linear(8, 3))


def images(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), norm, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))


ROWS, IMAGES = torch.randn(33, 4), torch.randn(33, 1, 8, 8)


@pytest.mark.parametrize(
    ("model", "x", "size"),
    [
        (rows(nn.BatchNorm1d(8)), ROWS[:32], 2),
        (images(nn.BatchNorm2d(8)), IMAGES[:32], 2),
        (images(nn.BatchNorm2d(8)), IMAGES[:32], 1),
        (rows(nn.BatchNorm1d(8, track_running_stats=False)).double(), ROWS[:32].double(), 3),
    ],
)
def test_few_samples_are_a_warning(model: nn.Module, x: Tensor, size: int) -> None:
    (one,) = [one for one in found(model, x, size) if one.severity == "warning"]
    assert one.where.module == "1"
    assert one.evidence["samples"] == size


def test_one_value_a_channel_is_an_error() -> None:
    assert [one.severity for one in found(rows(nn.BatchNorm1d(8)), ROWS[:32], 1)] == ["error"]


def test_a_last_batch_of_one_is_an_error_unless_it_is_dropped() -> None:
    assert [one.severity for one in found(rows(nn.BatchNorm1d(8)), ROWS, 16)] == ["error"]
    assert found(rows(nn.BatchNorm1d(8)), ROWS, 16, drop_last=True) == []
    assert found(images(nn.BatchNorm2d(8)), IMAGES, 16) == []


@pytest.mark.parametrize(
    ("model", "x", "size"),
    [
        (rows(nn.BatchNorm1d(8)), ROWS[:32], 8),
        (rows(nn.LayerNorm(8)), ROWS, 1),
        (images(nn.GroupNorm(2, 8)), IMAGES, 2),
        (images(nn.BatchNorm2d(8).eval()), IMAGES, 2),
        (images(nn.InstanceNorm2d(8)), IMAGES, 2),
    ],
)
def test_enough_samples_and_other_normalizations_draw_nothing(model: nn.Module, x: Tensor, size: int) -> None:
    assert found(model, x, size) == []


def momentum(value: float | None) -> nn.Module:
    return rows(nn.BatchNorm1d(8, momentum=value))


@pytest.mark.parametrize("value", [0.0, 0.99, 1.0])
def test_running_statistics_that_do_not_run_are_a_warning(value: float) -> None:
    (one,) = found(momentum(value), ROWS[:32], 16)
    assert (one.severity, one.where.module) == ("warning", "1")
    assert f"{value:g}" in one.message


def frozen_statistics() -> nn.Module:
    model = momentum(0.0)
    model[1].running_mean.fill_(0.3)
    return model


@pytest.mark.parametrize("model", [momentum(0.1), momentum(0.5), momentum(None), frozen_statistics()])
def test_running_statistics_that_run_or_were_learned_are_left_alone(model: nn.Module) -> None:
    assert found(model, ROWS[:32], 16) == []
