"""M308 on convolutions, and on narrow places that are meant."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.rules.rule_findings import checkup_findings, setup_builder

IMAGES = torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(3))


def convolved(*layers: nn.Module, channels: int = 8) -> nn.Module:
    tail = (nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3))
    return nn.Sequential(*layers, *tail)


def three(inputs: int, outputs: int) -> nn.Module:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


STACKED = {
    "side by side": convolved(three(3, 8), three(8, 8)),
    "batch normalization between": convolved(three(3, 8), nn.BatchNorm2d(8), three(8, 8)),
}


@pytest.mark.parametrize("name", STACKED)
def test_convolutions_without_an_activation_between_are_found(name: str) -> None:
    (found,) = checkup_findings(setup_builder(STACKED[name], IMAGES)(), "M308")
    assert found.where.module == "0"


APART = {
    "an activation": convolved(three(3, 8), nn.BatchNorm2d(8), nn.ReLU(), three(8, 8)),
    "a linear bottleneck": convolved(
        *(three(3, 16), nn.ReLU(), nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8), nn.Conv2d(8, 24, 1), nn.BatchNorm2d(24)),
        channels=24,
    ),
    "a bottleneck as wide as what it is given": convolved(
        *(three(3, 8), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.Conv2d(8, 24, 1)), channels=24
    ),
    "a projector that ends in normalization": nn.Sequential(
        nn.Flatten(), nn.Linear(192, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)
    ),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_meant_is_left_alone(name: str) -> None:
    assert checkup_findings(setup_builder(APART[name], IMAGES)(), "M308") == []
