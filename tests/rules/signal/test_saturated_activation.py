"""Tests of G402: saturated activations and attention, and gates and masks that are saturated by design."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import points
from tests.rules.rule_findings import checkup_findings, setup_builder

SERIES = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(2))
Y = points()[1]


class ScaledAttention(nn.Module):
    """Manual attention with ``scale`` and ``mask`` for its scores."""

    def __init__(self, width: int, scale: float, mask: Callable[[Tensor], Tensor] = lambda scores: scores) -> None:
        super().__init__()
        self.query, self.key, self.head = nn.Linear(4, width), nn.Linear(4, width), nn.Linear(4, 3)
        self.scale, self.mask = scale, mask

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) * self.scale
        weights = torch.softmax(self.mask(scores), dim=-1)
        return self.head((weights @ x).mean(1))


def large_weights(layer: nn.Linear) -> nn.Linear:
    nn.init.normal_(layer.weight, std=30.0)
    return layer


def diagonal_mask(scores: Tensor) -> Tensor:
    return scores.masked_fill(~torch.eye(6, dtype=torch.bool), -torch.inf)


def closed_gate(layer: nn.Linear) -> nn.Linear:
    nn.init.constant_(layer.bias, -4.0)
    return layer


FAULTS: dict[str, tuple[nn.Module, str]] = {
    "unscaled scores": (ScaledAttention(1024, 10.0), "torch.softmax("),
    "large weights": (nn.Sequential(nn.Flatten(), large_weights(nn.Linear(24, 8)), nn.Sigmoid(), nn.Linear(8, 3)), "2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_saturated_activation_is_warning_at_its_location(name: str) -> None:
    model, location = FAULTS[name]
    (finding,) = checkup_findings(setup_builder(model, SERIES, Y)(), "G402")
    assert finding.severity == "warning"
    assert location in (finding.where.source or "") or location == finding.where.module


@pytest.mark.parametrize(
    ("layer", "scale", "cause", "fix"),
    [
        (large_weights(nn.Linear(24, 8)), 1.0, "The standard deviation of 1.weight is ", "xavier_uniform_"),
        (nn.Linear(24, 8), 300.0, "The inputs of 1 are large; its weights have a usual scale.", "Standardize"),
    ],
    ids=["weights", "inputs"],
)
def test_saturated_activation_tells_large_weights_from_large_inputs(
    layer: nn.Linear, scale: float, cause: str, fix: str
) -> None:
    model = nn.Sequential(nn.Flatten(), layer, nn.Tanh(), nn.Linear(8, 3))
    (finding,) = checkup_findings(setup_builder(model, scale * SERIES, Y)(), "G402")
    assert finding.cause.startswith(cause)
    assert fix in finding.fix


HEALTHY: dict[str, nn.Module] = {
    "scaled scores": ScaledAttention(1024, 1 / math.sqrt(1024)),
    "attention to the same position only": ScaledAttention(8, 1.0, diagonal_mask),
    "a gate that starts closed": nn.Sequential(
        nn.Flatten(), closed_gate(nn.Linear(24, 8)), nn.Sigmoid(), nn.Linear(8, 3)
    ),
    "probabilities at the end": nn.Sequential(nn.Flatten(), large_weights(nn.Linear(24, 3)), nn.Sigmoid()),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_saturated_activation_ignores_saturation_by_design(name: str) -> None:
    assert checkup_findings(setup_builder(HEALTHY[name], SERIES, Y)(), "G402") == []
