"""Tests of M308 on convolutions, and on bottlenecks by design."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.rules.rule_findings import checkup_findings, setup_builder

IMAGES = torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(3))


def conv_network(*layers: nn.Module, channels: int = 8) -> nn.Module:
    tail = (nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3))
    return nn.Sequential(*layers, *tail)


def conv3x3(inputs: int, outputs: int) -> nn.Module:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


FAULTS = {
    "adjacent": conv_network(conv3x3(3, 8), conv3x3(8, 8)),
    "a pointwise one behind patches of full rank": conv_network(conv3x3(3, 32), nn.Conv2d(32, 16, 1), channels=16),
    "batch normalization between": conv_network(conv3x3(3, 8), nn.BatchNorm2d(8), conv3x3(8, 8)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_stacked_linear_of_adjacent_convolutions_points_to_first(name: str) -> None:
    (finding,) = checkup_findings(setup_builder(FAULTS[name], IMAGES)(), "M308")
    assert finding.where.module == "0"


class FactorizedConvolution(nn.Module):
    """A convolution of one channel, and the product of two factors that is added to it."""

    def __init__(self, rank: int, is_trained: bool = True) -> None:
        super().__init__()
        self.base = nn.Conv2d(1, 8, 3, padding=1).requires_grad_(is_trained)
        self.down, self.up = nn.Conv2d(1, rank, 3, padding=1, bias=False), nn.Conv2d(rank, 8, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        adapted: torch.Tensor = self.base(x) + self.up(self.down(x))
        return adapted


def test_stacked_linear_counts_the_patches_of_a_factorized_kernel() -> None:
    images = IMAGES[:, :1]
    narrow = conv_network(FactorizedConvolution(rank=4))  # 4 channels between 9 values of a patch and 8 channels
    assert checkup_findings(setup_builder(narrow, images)(), "M308") == []
    (finding,) = checkup_findings(setup_builder(conv_network(FactorizedConvolution(rank=8)), images)(), "M308")
    assert finding.where.module == "0.down"
    adapter = conv_network(FactorizedConvolution(rank=8, is_trained=False))
    assert checkup_findings(setup_builder(adapter, images)(), "M308") == []


HEALTHY = {
    "an activation": conv_network(conv3x3(3, 8), nn.BatchNorm2d(8), nn.ReLU(), conv3x3(8, 8)),
    "a linear bottleneck": conv_network(
        *(conv3x3(3, 16), nn.ReLU(), nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8), nn.Conv2d(8, 24, 1), nn.BatchNorm2d(24)),
        channels=24,
    ),
    "a bottleneck as wide as its input": conv_network(
        *(conv3x3(3, 8), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.Conv2d(8, 24, 1)), channels=24
    ),
    "patches of low rank": conv_network(conv3x3(3, 6), nn.Conv2d(6, 16, 1), channels=16),
    "a separable kernel": conv_network(nn.Conv2d(3, 12, 4, stride=4), nn.Conv2d(12, 32, 1), channels=32),
    "a projector that ends in normalization": nn.Sequential(
        nn.Flatten(), nn.Linear(192, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_stacked_linear_ignores_activations_and_bottlenecks(name: str) -> None:
    assert checkup_findings(setup_builder(HEALTHY[name], IMAGES)(), "M308") == []
