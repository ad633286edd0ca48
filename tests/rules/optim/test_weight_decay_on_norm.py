"""Tests of O514: decayed biases are one note per group, and intended groups are not reported."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings


def setup_with_groups(groups: Any, **settings: Any) -> Setup:
    model = network(3)
    optimizer = torch.optim.AdamW(groups(model), **settings)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def split_by_dimension(model: nn.Module) -> list[dict[str, Any]]:
    weights = [p for p in model.parameters() if p.dim() > 1]
    return [{"params": weights}, {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]


def by_layer(model: nn.Sequential) -> list[dict[str, Any]]:
    return [{"params": model[0].parameters(), "weight_decay": 0.0}, {"params": model[2].parameters()}]


@pytest.mark.parametrize(
    ("groups", "parameters"),
    [
        (lambda m: m.parameters(), ["0.bias", "2.bias"]),
        (by_layer, ["2.bias"]),
        (lambda m: [{"params": [m[0].weight, m[0].bias]}], ["0.bias"]),
    ],
    ids=["all parameters", "by layer", "one layer"],
)
def test_weight_decay_on_norm_of_decayed_biases_is_note_with_parameters(groups: Any, parameters: list[str]) -> None:
    (finding,) = rule_findings(setup_with_groups(groups), "O514")
    assert finding.evidence["parameters"] == parameters
    assert finding.severity == "note"


@pytest.mark.parametrize(
    ("groups", "settings"),
    [
        (split_by_dimension, {}),
        (lambda m: m.parameters(), {"weight_decay": 0.0}),
        (lambda m: [m[0].weight, m[2].weight], {}),
        (lambda m: [m[0].bias, m[2].bias], {}),
    ],
    ids=["by dimension", "no decay", "weights only", "biases only"],
)
def test_weight_decay_on_norm_ignores_intended_groups(groups: Any, settings: dict[str, Any]) -> None:
    assert rule_findings(setup_with_groups(groups, **settings), "O514") == []


def test_weight_decay_on_norm_fix_keeps_all_options_that_were_chosen() -> None:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))
    (finding,) = rule_findings(setup, "O514")
    scope: dict[str, Any] = {"torch": torch, "model": model}
    exec(finding.fix, scope)
    assert scope["optimizer"].defaults == optimizer.defaults
    assert [group["weight_decay"] for group in scope["optimizer"].param_groups] == [5e-4, 0.0]
