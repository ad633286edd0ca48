"""Tests of M308: consecutive linear layers, and the projections of attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = torch.randn(32, 6, 8, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


class ManualAttention(nn.Module):
    """Manual attention with an output projection before the head."""

    def __init__(self, attend: Attention) -> None:
        super().__init__()
        self.qkv, self.out, self.head, self.attend = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 3), attend

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.out(self.attend(*self.qkv(x).chunk(3, -1)))[:, 0])


class ProjectedAttention(nn.Module):
    """Features projected to the width of ``nn.MultiheadAttention``."""

    def __init__(self) -> None:
        super().__init__()
        self.width, self.attend = nn.Linear(8, 16), nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.width(x)
        return self.head(self.attend(x, x, x)[0][:, -1])


class SetPooling(nn.Module):
    """A mean of embeddings, weighted by scores that a second layer computes from the same embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.score, self.head = nn.Linear(8, 16), nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        return self.head((x * self.score(x).softmax(1)).sum(1).relu())


class Correction(nn.Module):
    """Two linear layers, wider than their input, whose result is added to that of another layer, or to the input."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base, self.down, self.up, self.head = base, nn.Linear(8, 12), nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.base(x) + 0.5 * self.up(self.down(x))).relu()[:, 0])


class CrossAttention(nn.Module):
    """Queries and keys of one part of the input, and values of another part, which a layer embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.context = nn.Linear(4, 16), nn.Linear(4, 16), nn.Linear(4, 16)
        self.value, self.head = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        place, reading = x.chunk(2, -1)
        weights = F.softmax(self.query(place) @ self.key(place).transpose(1, 2) / 4, -1)
        return self.head((weights @ self.value(self.context(reading))).relu()[:, 0])


class InPlace(nn.Module):
    """Two linear layers with an activation in place between them, which is applied to a view of sequences."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 12), nn.Linear(12, 8), nn.Linear(8, 3)
        self.activation = nn.SiLU(inplace=True) if activation == "silu" else getattr(torch, activation)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.activation(self.first(x))).mean(1).relu())


def setup_of(model: nn.Module) -> Setup:
    return minimal_setup(model, X, Y, nn.CrossEntropyLoss())


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "manual attention": lambda: ManualAttention(lambda q, k, v: F.softmax(q @ k.transpose(1, 2) / 3, -1) @ v),
    "scaled_dot_product_attention": lambda: ManualAttention(F.scaled_dot_product_attention),
    "MultiheadAttention": ProjectedAttention,
    "values of an embedded context": CrossAttention,
    "pooling by scores": SetPooling,
    "adapter of a frozen layer": lambda: Correction(nn.Linear(8, 8).requires_grad_(False)),
    **{
        f"{activation} in place on a view": lambda activation=activation: InPlace(activation)
        for activation in ("relu_", "silu", "tanh_", "sigmoid_")
    },
    "linear attention": lambda: ManualAttention(lambda q, k, v: q.softmax(-1) @ (k.softmax(1).transpose(1, 2) @ v)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_stacked_linear_of_healthy_model_has_no_findings(name: str) -> None:
    assert rule_findings(setup_of(HEALTHY[name]()), "M308") == []


FAULTS: dict[str, Callable[[], nn.Module]] = {
    "two layers": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.Linear(16, 3)),
    "with dropout between": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.Dropout(0.1), nn.Linear(16, 3)),
    "added to the input": lambda: Correction(nn.Identity()),
    "after an attention": lambda: ManualAttention(
        lambda q, k, v: F.linear(F.relu(F.softmax(q @ k.transpose(1, 2), -1) @ v), torch.eye(8))
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_stacked_linear_of_consecutive_layers_is_warning(name: str) -> None:
    (finding,) = rule_findings(setup_of(FAULTS[name]()), "M308")
    assert finding.severity == "warning"


def layers_around(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 16), activation, nn.Linear(16, 3))


@pytest.mark.parametrize(
    ("activation", "count"),
    [
        (nn.LeakyReLU(1.0), 1),
        (nn.LeakyReLU(1.0, inplace=True), 1),
        (nn.Hardtanh(-100.0, 100.0), 1),
        (nn.LeakyReLU(0.9), 0),
        (nn.ReLU6(), 0),
        (nn.Hardtanh(-0.1, 0.1), 0),
        (nn.PReLU(init=1.0), 0),
    ],
    ids=["slope 1", "slope 1 in place", "clamp beyond the values", "two slopes", "relu6", "clamp", "learned slope"],
)
def test_stacked_linear_counts_an_activation_of_one_slope_as_none(activation: nn.Module, count: int) -> None:
    findings = rule_findings(setup_of(layers_around(activation)), "M308")
    assert [(finding.where.module, "same slope" in finding.cause) for finding in findings] == [("2", True)] * count
