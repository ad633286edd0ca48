"""Tests of O510: settings that torch accepts and that do not work, and settings that only look odd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from tests.rules.rule_findings import rule_findings

X, Y = points()
ADAM, SGD, RMSPROP = torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop


def findings(optimizer: torch.optim.Optimizer, model: nn.Module, **options: Any) -> list[Finding]:
    dtype = next(model.parameters()).dtype
    setup = minimal_setup(model, X.to(dtype), Y, nn.CrossEntropyLoss(), optimizers=(optimizer,), **options)
    return rule_findings(setup, "O510")


FAULTS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any], str]] = {
    "betas swapped": (ADAM, {"betas": (0.999, 0.9)}, "betas"),
    "second beta mistyped": (torch.optim.AdamW, {"betas": (0.9, 0.099)}, "betas"),
    "momentum of one": (SGD, {"lr": 0.1, "momentum": 1.0}, "momentum"),
    "dampening of one": (SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 1.0}, "dampening"),
    "eps of zero": (ADAM, {"eps": 0.0}, "eps"),
    "learning rate of zero": (SGD, {"lr": 0.0}, "lr"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_odd_optimizer_setting_that_breaks_training_is_warning(name: str) -> None:
    optimizer_class, settings, key = FAULTS[name]
    model = network(3)
    (finding,) = findings(optimizer_class(model.parameters(), **settings), model)
    assert finding.severity == "warning"
    assert finding.evidence["setting"] == key


@pytest.mark.parametrize("key", ["learning_rate", "weigth_decay", "wd", "Lr"])
def test_odd_optimizer_setting_with_misspelled_key_suggests_correct_key(key: str) -> None:
    model = network(3)
    (finding,) = findings(ADAM([{"params": model.parameters(), key: 0.1}]), model)
    assert "the key 'lr'" in finding.message or "the key 'weight_decay'" in finding.message


def test_odd_optimizer_setting_reports_eps_that_half_precision_rounds_to_zero() -> None:
    model = network(3).half()
    assert [finding.evidence["setting"] for finding in findings(ADAM(model.parameters()), model)] == ["eps"]
    assert findings(ADAM(model.parameters(), eps=1e-4), model) == []


HEALTHY: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "plain": (ADAM, {}),
    "language model": (torch.optim.AdamW, {"betas": (0.9, 0.95), "weight_decay": 0.1}),
    "adversarial training": (ADAM, {"lr": 2e-4, "betas": (0.5, 0.999)}),
    "no first moment": (ADAM, {"betas": (0.0, 0.9)}),
    "high momentum": (SGD, {"lr": 0.1, "momentum": 0.99, "nesterov": True}),
    "large eps": (RMSPROP, {"eps": 1.0}),
    "lbfgs": (torch.optim.LBFGS, {}),
    "adafactor": (torch.optim.Adafactor, {}),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_odd_optimizer_setting_ignores_valid_settings(name: str) -> None:
    optimizer_class, settings = HEALTHY[name]
    model = network(3)
    assert findings(optimizer_class(model.parameters(), **settings), model) == []


def test_odd_optimizer_setting_ignores_warm_up_from_zero_and_custom_keys() -> None:
    model = network(3)
    optimizer = ADAM([{"params": model.parameters(), "name": "all", "lr_scale": 0.5, "layer": 3}], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    assert optimizer.param_groups[0]["lr"] == 0
    assert findings(optimizer, model, scheduler=scheduler) == []
    assert findings(optimizer, model) == []


def test_odd_optimizer_setting_ignores_frozen_group_with_learning_rate_of_zero() -> None:
    model = network(3)
    model[0].requires_grad_(False)
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}]
    assert findings(SGD(groups, lr=0.1), model) == []


@pytest.mark.parametrize(
    ("optimizer_class", "settings", "has_finding"),
    [
        (torch.optim.AdamW, {"eps": 1.0}, True),
        (torch.optim.AdamW, {"lr": 1e-4, "eps": 0.2}, True),
        (RMSPROP, {"lr": 1e-3, "eps": 10.0}, True),
        (RMSPROP, {"lr": 1e-4, "eps": 0.2}, True),
        (ADAM, {"lr": 1e-4, "eps": 1e-3}, False),
        (RMSPROP, {"lr": 0.045, "eps": 1.0}, False),
        (ADAM, {}, False),
        (torch.optim.Adagrad, {}, False),
        (ADAM, {"lr": 1.0, "eps": 1.0}, False),
    ],
    ids=[
        "AdamW",
        "AdamW, most values",
        "RMSprop",
        "RMSprop, most values",
        "eps of a recipe",
        "rate of a recipe",
        "default",
        "other optimizer",
        "higher rate",
    ],
)
def test_odd_optimizer_setting_of_dominating_eps_is_reported_after_a_poor_run(
    optimizer_class: type[torch.optim.Optimizer], settings: dict[str, Any], has_finding: bool
) -> None:
    torch.manual_seed(0)
    model = network(3)
    optimizer = optimizer_class(model.parameters(), **settings)
    setup = minimal_setup(model, X, X[:, :3].argmax(1), nn.CrossEntropyLoss(), optimizers=(optimizer,))
    debugger = Debugger.of(setup)
    with debugger.watch():
        for _ in range(60):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    settings_reported = [finding.evidence["setting"] for finding in debugger.findings if finding.code == "O510"]
    assert settings_reported == (["eps"] if has_finding else [])
