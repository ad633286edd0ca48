"""O503 for parameters of the loss, O507 for schedules of another optimizer, O509, and the lines that set options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings

X, Y = points()
Optimizer = Callable[[Any], torch.optim.Optimizer]


class Weighted(nn.Module):
    """Two errors with weights that are learned."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(2))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        errors = ((output - target) ** 2).mean(0)
        return (torch.exp(-self.weights) * errors + self.weights).sum()


class Perceptual(nn.Module):
    """An error between features of a network that stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Linear(2, 4)

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(self.features(output), self.features(target))


def plain(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def pair(loss_fn: nn.Module, whole: bool) -> Setup:
    model = network(2)
    held = [*model.parameters(), *(loss_fn.parameters() if whole else ())]
    return minimal_setup(model, X, X[:, :2], loss_fn, optimizers=(torch.optim.Adam(held),))


def trained(make: Optimizer) -> Setup:
    model = network(3)
    return minimal_setup(model, X, Y, plain, optimizers=(make(model.parameters()),))


def test_parameters_of_the_loss_are_missed() -> None:
    assert [one.where.parameter for one in rule_findings(pair(Weighted(), whole=False), "O503")] == ["weights"]


@pytest.mark.parametrize("setup", [pair(Weighted(), whole=True), pair(Perceptual(), whole=False)])
def test_parameters_that_are_held_or_that_belong_to_a_network_inside_are_left_alone(setup: Setup) -> None:
    assert fault_messages(setup, "O503") == []


STRONG: dict[str, Optimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.5),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=2.0),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=100.0),
}
USUAL: dict[str, Optimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=5e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1),
    "none": lambda p: torch.optim.Adam(p, lr=1e-3),
}


@pytest.mark.parametrize("name", STRONG)
def test_decay_that_outweighs_the_gradient_is_found(name: str) -> None:
    assert len(fault_messages(trained(STRONG[name]), "O509")) == 1


@pytest.mark.parametrize("name", USUAL)
def test_usual_decay_is_left_alone(name: str) -> None:
    assert fault_messages(trained(USUAL[name]), "O509") == []


@pytest.mark.parametrize(
    ("code", "make", "line"),
    [
        ("O509", STRONG["adam"], "weight_decay=2.0"),
        ("O510", lambda p: torch.optim.SGD(p, lr=0.1, momentum=1.5), "momentum=1.5"),
        ("O510", lambda p: torch.optim.Adam(p, betas=(0.99, 0.5)), "betas=(0.99, 0.5)"),
        ("L213", lambda p: torch.optim.Adagrad(p, maximize=True), "maximize=True"),
    ],
)
def test_the_line_that_sets_an_option_is_named(code: str, make: Optimizer, line: str) -> None:
    (found,) = rule_findings(trained(make), code)
    assert found.where.source is not None
    assert line in found.where.source


def test_a_schedule_needs_an_optimizer_that_was_given() -> None:
    setup = trained(USUAL["sgd"])
    setup.scheduler = torch.optim.lr_scheduler.StepLR(setup.optimizers[0], 5)
    assert fault_messages(setup, "O507") == []
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), lr=0.1),)
    assert len(fault_messages(setup, "O507")) == 1


def test_what_is_frozen_is_named_before_what_is_not_held() -> None:
    model = network(3)
    optimizer = torch.optim.Adam(model[2].parameters())
    model[2].requires_grad_(False)
    report = Debugger.of(minimal_setup(model, X, Y, plain, optimizers=(optimizer,))).checkup()
    assert [one.code for one in report.faults] == ["M302", "O503"]
