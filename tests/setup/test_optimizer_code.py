"""Tests of the code of an optimizer: it creates the same optimizer again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.finding import is_code
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup.optimizer_code import optimizer_code, usual_rate
from tests.rules.rule_findings import checkup_findings


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (torch.optim.SGD, {"lr": 0.1 * 0.04, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}),
        (torch.optim.Adam, {"lr": 3e-4, "betas": (0.5, 0.99), "eps": 1e-6}),
        (torch.optim.AdamW, {}),
        (torch.optim.RMSprop, {"lr": 2e-2, "centered": True}),
    ],
)
def test_optimizer_code_creates_optimizer_with_the_same_settings(
    kind: type[torch.optim.Optimizer], settings: dict[str, Any]
) -> None:
    model = nn.Linear(2, 1)
    optimizer = kind(model.parameters(), **settings)
    code = optimizer_code(optimizer, "model.parameters()")
    assert eval(code, {"torch": torch, "model": model}).defaults == {**optimizer.defaults, **rounded(optimizer)}
    assert code.count("=") == len(settings)


def rounded(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    return {"lr": float(f"{optimizer.defaults['lr']:.3g}")}


def test_optimizer_code_with_a_rate_replaces_the_rate() -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0, momentum=0.9)
    assert optimizer_code(optimizer, "parameters", 1e-05) == "torch.optim.SGD(parameters, lr=1e-05, momentum=0.9)"


@pytest.mark.parametrize(
    ("rate", "update_ratio", "usual_ratio", "expected"),
    [(50.0, 7.0, 0.01, 0.05), (0.1, 0.02, 0.01, 0.01), (2e-6, 7e-6, 5e-3, 2e-3), (1e-3, 9e-4, 1e-3, 1e-2)],
)
def test_usual_rate_is_the_power_of_ten_that_brings_the_usual_update(
    rate: float, update_ratio: float, usual_ratio: float, expected: float
) -> None:
    assert usual_rate(rate, update_ratio, usual_ratio) == pytest.approx(expected)


def test_fix_with_several_optimizers_names_valid_code_and_replaces_none() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizers = tuple(torch.optim.SGD(model[number].parameters(), lr=0.1, momentum=0.9) for number in (2, 4))
    (finding,) = checkup_findings(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers), "O503")
    assert not is_code(finding.fix)
    code = finding.fix.partition("for example ")[2].partition(", and step")[0]
    (group,) = eval(code, {"torch": torch, "model": model}).param_groups
    assert group["params"] == [*model[0].parameters()]
    assert group["momentum"] == 0.9
