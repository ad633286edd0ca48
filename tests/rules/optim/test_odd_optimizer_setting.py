"""O510: settings that torch accepts and that do not work, and settings that only look odd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points

X, Y = points()
ADAM, SGD, RMS = torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop


def found(optimizer: torch.optim.Optimizer, model: nn.Module, **given: Any) -> list[Finding]:
    kind = next(model.parameters()).dtype
    setup = minimal_setup(model, X.to(kind), Y, nn.CrossEntropyLoss(), optimizers=(optimizer,), **given)
    return [one for one in Debugger.of(setup).checkup(select=["O510"]) if one.code == "O510"]


FAULTS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any], str]] = {
    "betas swapped": (ADAM, {"betas": (0.999, 0.9)}, "betas"),
    "second beta mistyped": (torch.optim.AdamW, {"betas": (0.9, 0.099)}, "betas"),
    "momentum of one": (SGD, {"lr": 0.1, "momentum": 1.0}, "momentum"),
    "dampening of one": (SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 1.0}, "dampening"),
    "eps of zero": (ADAM, {"eps": 0.0}, "eps"),
    "rate of zero": (SGD, {"lr": 0.0}, "lr"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_does_not_work_is_a_warning(name: str) -> None:
    kind, settings, key = FAULTS[name]
    model = network(3)
    (one,) = found(kind(model.parameters(), **settings), model)
    assert one.severity == "warning"
    assert one.evidence["setting"] == key


@pytest.mark.parametrize("key", ["learning_rate", "weigth_decay", "wd", "Lr"])
def test_a_misspelled_key_is_found_with_what_was_meant(key: str) -> None:
    model = network(3)
    (one,) = found(ADAM([{"params": model.parameters(), key: 0.1}]), model)
    assert "the key 'lr'" in one.message or "the key 'weight_decay'" in one.message


def test_an_eps_that_half_precision_rounds_to_zero_is_found() -> None:
    model = network(3).half()
    assert [one.evidence["setting"] for one in found(ADAM(model.parameters()), model)] == ["eps"]
    assert found(ADAM(model.parameters(), eps=1e-4), model) == []


HEALTHY: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "plain": (ADAM, {}),
    "of language models": (torch.optim.AdamW, {"betas": (0.9, 0.95), "weight_decay": 0.1}),
    "of adversarial training": (ADAM, {"lr": 2e-4, "betas": (0.5, 0.999)}),
    "without first moment": (ADAM, {"betas": (0.0, 0.9)}),
    "high momentum": (SGD, {"lr": 0.1, "momentum": 0.99, "nesterov": True}),
    "large eps": (RMS, {"eps": 1.0}),
    "lbfgs": (torch.optim.LBFGS, {}),
    "adafactor": (torch.optim.Adafactor, {}),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_works_is_left_alone(name: str) -> None:
    kind, settings = HEALTHY[name]
    model = network(3)
    assert found(kind(model.parameters(), **settings), model) == []


def test_warm_up_from_zero_and_keys_of_ones_own_are_left_alone() -> None:
    model = network(3)
    optimizer = ADAM([{"params": model.parameters(), "name": "all", "lr_scale": 0.5, "layer": 3}], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    assert optimizer.param_groups[0]["lr"] == 0
    assert found(optimizer, model, scheduler=scheduler) == []
    assert found(optimizer, model) == []


def test_a_frozen_group_with_a_rate_of_zero_is_left_alone() -> None:
    model = network(3)
    model[0].requires_grad_(False)
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}]
    assert found(SGD(groups, lr=0.1), model) == []
