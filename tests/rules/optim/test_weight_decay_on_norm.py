"""O514: decay on vectors is noted, decay on matrices alone is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.programs import points, program


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def found(net: nn.Module, *optimizers: torch.optim.Optimizer) -> list[Finding]:
    setup = program(net, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)
    return [one for one in Debugger.of(setup).checkup(select=["O514"]) if one.code == "O514"]


def groups(net: nn.Module, decay: float) -> list[dict[str, Any]]:
    vectors = [p for p in net.parameters() if p.ndim < 2]
    matrices = [p for p in net.parameters() if p.ndim >= 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adam])
def test_decay_on_everything_is_a_note(kind: type[torch.optim.Optimizer]) -> None:
    net = model()
    (one,) = found(net, kind(net.parameters(), lr=0.1, weight_decay=0.05))
    assert one.severity == "note"
    assert one.evidence["parameters"] == ["0.bias", "1.weight", "1.bias", "3.bias"]


def test_groups_without_decay_on_vectors_draw_nothing() -> None:
    net = model()
    assert found(net, torch.optim.AdamW(groups(net, 0.1))) == []


def test_no_decay_draws_nothing() -> None:
    net = model()
    assert found(net, torch.optim.SGD(net.parameters(), lr=0.1)) == []


def test_frozen_vectors_draw_nothing() -> None:
    net = model()
    for parameter in net.parameters():
        parameter.requires_grad = parameter.ndim > 1
    assert found(net, torch.optim.AdamW(net.parameters())) == []


def test_a_model_of_vectors_alone_draws_nothing() -> None:
    net = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3).requires_grad_(False))
    assert found(net, torch.optim.AdamW(net.parameters())) == []
