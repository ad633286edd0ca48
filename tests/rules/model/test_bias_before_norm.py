"""Tests of M313: a bias is reported only if the normalization subtracts the mean of its channel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
CE = nn.CrossEntropyLoss()
IMAGES = torch.rand(16, 2, 6, 6)
LABELS = torch.arange(16) % 3


class FunctionalBatchNorm(nn.Module):
    """A matrix product, a bias and a functional batch normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.shift, self.head = (
            nn.Parameter(torch.randn(4, 8)),
            nn.Parameter(torch.ones(8)),
            nn.Linear(8, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(F.batch_norm(x @ self.weight + self.shift, None, None, training=True)))


class FrameBatchNorm(nn.Module):
    """A linear layer over frames, transposed for the normalization."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, hidden), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x.unsqueeze(1).expand(-1, 5, -1)).transpose(1, 2)
        return self.head(self.norm(h).mean(2))


def convolution_setup(*middle: nn.Module) -> Setup:
    model = nn.Sequential(nn.Conv2d(2, 8, 3), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(128, 3))
    return minimal_setup(model, IMAGES, LABELS, CE)


@pytest.mark.parametrize(
    ("build", "bias"),
    [
        (lambda: convolution_setup(nn.BatchNorm2d(8)), "0.bias"),
        (lambda: convolution_setup(nn.InstanceNorm2d(8)), "0.bias"),
        (lambda: minimal_setup(FunctionalBatchNorm(), X, Y, CE), "shift"),
        (lambda: minimal_setup(FrameBatchNorm(), X, Y, CE), "body.bias"),
    ],
    ids=["batch norm", "instance norm", "functional", "transposed frames"],
)
def test_bias_before_norm_with_canceled_bias_is_note_at_parameter(build: Callable[[], Setup], bias: str) -> None:
    (finding,) = rule_findings(build(), "M313")
    assert finding.where.parameter == bias
    assert finding.severity == "note"


def frozen_norm_setup() -> Setup:
    setup = convolution_setup(nn.BatchNorm2d(8))
    setup.model[1].eval()
    return setup


@pytest.mark.parametrize(
    "build",
    [
        lambda: convolution_setup(nn.GroupNorm(2, 8)),
        lambda: convolution_setup(nn.ReLU(), nn.BatchNorm2d(8)),
        lambda: convolution_setup(nn.LayerNorm([4, 4])),
        frozen_norm_setup,
        lambda: convolution_setup(),
    ],
    ids=["group norm", "ReLU between", "layer norm", "frozen batch norm", "no norm"],
)
def test_bias_before_norm_ignores_effective_bias(build: Callable[[], Setup]) -> None:
    assert rule_findings(build(), "M313") == []
