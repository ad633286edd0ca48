"""Tests of M314 for layers that reduce each sample to a single number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_findings


def sequential() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh(), nn.Linear(1, 16), nn.Linear(16, 3))


class Averaged(nn.Module):
    """Averages over all features where it should keep them."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 16), nn.Linear(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.body(x)).mean(1, keepdim=True))


class Product(nn.Module):
    """Multiplies by weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Parameter(torch.randn(shape)) for shape in ((6, 16), (16, 1), (1, 3)))

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ self.first).tanh() @ self.second).sigmoid() @ self.third


class Gated(nn.Module):
    """Multiplies wide features by one number per sample, and adds another that a layer has widened."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.gate, self.widen, self.head = (
            nn.Linear(6, 16),
            nn.Linear(16, 1),
            nn.Linear(1, 16),
            nn.Linear(16, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        features = torch.relu(self.body(x))
        gate = self.gate(features)
        return self.head(features * torch.sigmoid(gate) + self.widen(gate))


class Ordinal(nn.Module):
    """One score and a threshold for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.thresholds = (
            nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)),
            nn.Parameter(torch.randn(3)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) - self.thresholds


def curve() -> nn.Module:
    """A model of one feature."""
    return nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 3))


def regression() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))


def single_hidden_unit() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 1), nn.Tanh(), nn.Linear(1, 1))


def rectified_unit() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.ReLU(), nn.Linear(1, 1))


def scaled_score() -> nn.Module:
    """A score between 0 and 1, and the scale of the targets."""
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Linear(1, 1))


def scaled_output() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(), nn.Linear(1, 1))


class Similarity(nn.Module):
    """Scales the product of two vectors, as a recommender does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(3, 8), nn.Linear(3, 8), nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(torch.relu((self.first(x[:, :3]) * self.second(x[:, 3:])).sum(1, keepdim=True)))


def findings(make: Callable[[], nn.Module], features: int = 6) -> list[str | None]:
    torch.manual_seed(1)
    model, x = make(), torch.randn(32, features)
    outputs = model(x).shape[1]
    loss_fn = nn.CrossEntropyLoss() if outputs > 1 else nn.MSELoss()
    y = torch.randint(0, outputs, (32,)) if outputs > 1 else torch.randn(32, 1)
    return [finding.where.module for finding in rule_findings(minimal_setup(model, x, y, loss_fn), "M314")]


@pytest.mark.parametrize(
    ("make", "module"),
    [(sequential, "2"), (Averaged, None), (Product, None), (single_hidden_unit, "0"), (rectified_unit, "2")],
)
def test_single_number_per_sample_is_reported_at_its_producer(
    make: Callable[[], nn.Module], module: str | None
) -> None:
    assert findings(make) == [module]


@pytest.mark.parametrize(
    ("make", "features"),
    [(Gated, 6), (Ordinal, 6), (regression, 6), (curve, 1), (scaled_score, 6), (scaled_output, 6), (Similarity, 6)],
)
def test_number_that_does_not_decide_alone_is_not_reported(make: Callable[[], nn.Module], features: int) -> None:
    assert findings(make, features) == []
