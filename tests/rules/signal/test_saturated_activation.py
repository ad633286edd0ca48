"""G402 on hidden activations and attention, and on gates and masks that only look pinned."""

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


class Attending(nn.Module):
    """Attention by hand, over scores that ``scale`` and ``mask`` change."""

    def __init__(self, width: int, scale: float, mask: Callable[[Tensor], Tensor] = lambda scores: scores) -> None:
        super().__init__()
        self.query, self.key, self.head = nn.Linear(4, width), nn.Linear(4, width), nn.Linear(4, 3)
        self.scale, self.mask = scale, mask

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) * self.scale
        weights = torch.softmax(self.mask(scores), dim=-1)
        return self.head((weights @ x).mean(1))


def large(layer: nn.Linear) -> nn.Linear:
    nn.init.normal_(layer.weight, std=30.0)
    return layer


def diagonal(scores: Tensor) -> Tensor:
    return scores.masked_fill(~torch.eye(6, dtype=torch.bool), -torch.inf)


def closed(layer: nn.Linear) -> nn.Linear:
    nn.init.constant_(layer.bias, -4.0)
    return layer


FAULTS: dict[str, tuple[nn.Module, str]] = {
    "scores without a scale": (Attending(1024, 10.0), "torch.softmax("),
    "large weights": (nn.Sequential(nn.Flatten(), large(nn.Linear(24, 8)), nn.Sigmoid(), nn.Linear(8, 3)), "2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_pinned_is_found_at_its_place(name: str) -> None:
    model, place = FAULTS[name]
    (found,) = checkup_findings(setup_builder(model, SERIES, Y)(), "G402")
    assert found.severity == "warning"
    assert place in (found.where.source or "") or place == found.where.module


HEALTHY: dict[str, nn.Module] = {
    "scores with a scale": Attending(1024, 1 / math.sqrt(1024)),
    "each place sees itself": Attending(8, 1.0, diagonal),
    "a gate that begins closed": nn.Sequential(nn.Flatten(), closed(nn.Linear(24, 8)), nn.Sigmoid(), nn.Linear(8, 3)),
    "probabilities at the end": nn.Sequential(nn.Flatten(), large(nn.Linear(24, 3)), nn.Sigmoid()),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_pinned_is_left_alone(name: str) -> None:
    assert checkup_findings(setup_builder(HEALTHY[name], SERIES, Y)(), "G402") == []
