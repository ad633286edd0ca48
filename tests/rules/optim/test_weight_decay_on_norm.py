"""O514: one note for a group that decays biases with weights; none for groups made on purpose."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings


def trained(groups: Any, **settings: Any) -> Setup:
    model = network(3)
    optimizer = torch.optim.AdamW(groups(model), **settings)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def split(model: nn.Module) -> list[dict[str, Any]]:
    weights = [p for p in model.parameters() if p.dim() > 1]
    return [{"params": weights}, {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]


def by_layer(model: nn.Sequential) -> list[dict[str, Any]]:
    return [{"params": model[0].parameters(), "weight_decay": 0.0}, {"params": model[2].parameters()}]


@pytest.mark.parametrize(
    ("groups", "named"),
    [
        (lambda m: m.parameters(), ["0.bias", "2.bias"]),
        (by_layer, ["2.bias"]),
        (lambda m: [{"params": [m[0].weight, m[0].bias]}], ["0.bias"]),
    ],
)
def test_biases_under_decay_are_named(groups: Any, named: list[str]) -> None:
    (found,) = rule_findings(trained(groups), "O514")
    assert found.evidence["parameters"] == named
    assert found.severity == "note"


@pytest.mark.parametrize(
    ("groups", "settings"),
    [
        (split, {}),
        (lambda m: m.parameters(), {"weight_decay": 0.0}),
        (lambda m: [m[0].weight, m[2].weight], {}),
        (lambda m: [m[0].bias, m[2].bias], {}),
    ],
)
def test_groups_made_on_purpose_are_left_alone(groups: Any, settings: dict[str, Any]) -> None:
    assert rule_findings(trained(groups, **settings), "O514") == []
