"""M313: a bias is named where the mean of its channel is subtracted, and nowhere else."""

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


class Functional(nn.Module):
    """A product, a bias and a normalization by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.shift, self.head = (
            nn.Parameter(torch.randn(4, 8)),
            nn.Parameter(torch.ones(8)),
            nn.Linear(8, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(F.batch_norm(x @ self.weight + self.shift, None, None, training=True)))


class Frames(nn.Module):
    """A layer over frames, turned for the normalization."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, hidden), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x.unsqueeze(1).expand(-1, 5, -1)).transpose(1, 2)
        return self.head(self.norm(h).mean(2))


def images(*middle: nn.Module) -> Setup:
    model = nn.Sequential(nn.Conv2d(2, 8, 3), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(128, 3))
    return minimal_setup(model, IMAGES, LABELS, CE)


@pytest.mark.parametrize(
    ("build", "bias"),
    [
        (lambda: images(nn.BatchNorm2d(8)), "0.bias"),
        (lambda: images(nn.InstanceNorm2d(8)), "0.bias"),
        (lambda: minimal_setup(Functional(), X, Y, CE), "shift"),
        (lambda: minimal_setup(Frames(), X, Y, CE), "body.bias"),
    ],
)
def test_a_canceled_bias_is_named(build: Callable[[], Setup], bias: str) -> None:
    (found,) = rule_findings(build(), "M313")
    assert found.where.parameter == bias
    assert found.severity == "note"


def frozen_norm() -> Setup:
    setup = images(nn.BatchNorm2d(8))
    setup.model[1].eval()
    return setup


@pytest.mark.parametrize(
    "build",
    [
        lambda: images(nn.GroupNorm(2, 8)),
        lambda: images(nn.ReLU(), nn.BatchNorm2d(8)),
        lambda: images(nn.LayerNorm([4, 4])),
        frozen_norm,
        lambda: images(),
    ],
)
def test_a_bias_that_counts_is_left_alone(build: Callable[[], Setup]) -> None:
    assert rule_findings(build(), "M313") == []
