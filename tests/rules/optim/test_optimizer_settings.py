"""Tests of O503 for loss parameters, O507 for schedules of another optimizer, O509, and the locations of settings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.optim.setups import MakeOptimizer, setup_with_optimizer
from tests.rules.rule_findings import fault_messages, rule_findings

X, Y = points()


class LearnedLossWeights(nn.Module):
    """Two squared errors with learned weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(2))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        errors = ((output - target) ** 2).mean(0)
        return (torch.exp(-self.weights) * errors + self.weights).sum()


class OwnLossWeights(LearnedLossWeights):
    """A loss that is created before its optimizer."""


class LaterLossWeights(LearnedLossWeights):
    """A loss that is created after one optimizer, and before one with groups."""


class PerceptualLoss(nn.Module):
    """A squared error between features of a fixed network."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Linear(2, 4)

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(self.features(output), self.features(target))


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """A loss in this file, which makes the search for the line of a setting include the file."""
    return F.cross_entropy(output, target)


def setup_with_loss(loss_fn: nn.Module, optimize_loss: bool) -> Setup:
    model = network(2)
    parameters = [*model.parameters(), *(loss_fn.parameters() if optimize_loss else ())]
    return minimal_setup(model, X, X[:, :2], loss_fn, optimizers=(torch.optim.Adam(parameters),))


def test_parameter_not_optimized_reports_loss_parameters_outside_optimizer() -> None:
    findings = rule_findings(setup_with_loss(LearnedLossWeights(), optimize_loss=False), "O503")
    assert [finding.where.parameter for finding in findings] == ["weights"]


def test_parameter_not_optimized_adds_the_parameters_of_the_loss_where_the_optimizer_is_created() -> None:
    net = network(2)
    criterion = OwnLossWeights()
    nadam = torch.optim.NAdam(list(net.parameters()), lr=1e-3)
    (finding,) = rule_findings(minimal_setup(net, X, X[:, :2], criterion, optimizers=(nadam,)), "O503")
    assert [line for change in finding.changes for line in change.added] == [
        "nadam = torch.optim.NAdam([*net.parameters(), *criterion.parameters()], lr=1e-3)"
    ]


def test_parameter_not_optimized_does_not_add_parameters_of_a_later_loss_or_to_groups() -> None:
    net = network(2)
    rprop = torch.optim.Rprop(net.parameters(), lr=0.1)
    criterion = LaterLossWeights()
    groups = torch.optim.RAdam([{"params": net.parameters(), "lr": 1e-3}])
    for optimizer in (rprop, groups):
        (finding,) = rule_findings(minimal_setup(net, X, X[:, :2], criterion, optimizers=(optimizer,)), "O503")
        assert finding.changes == ()


def test_parameter_not_optimized_names_an_empty_group_beside_other_optimizers() -> None:
    model = network(2)
    used = iter(model[2].parameters())
    list(used)
    groups = [{"params": model[0].parameters()}, {"params": used}]
    other = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1)
    setup = minimal_setup(model, X, X[:, :2], nn.MSELoss(), optimizers=(torch.optim.Adam(groups), other))
    (finding,) = rule_findings(setup, "O503")
    assert "Parameter group 1 is empty" in finding.cause
    assert "a list can be read twice" in finding.fix


@pytest.mark.parametrize(
    "setup",
    [setup_with_loss(LearnedLossWeights(), optimize_loss=True), setup_with_loss(PerceptualLoss(), optimize_loss=False)],
)
def test_parameter_not_optimized_ignores_optimized_loss_and_fixed_network_in_loss(setup: Setup) -> None:
    assert fault_messages(setup, "O503") == []


STRONG_DECAY: dict[str, MakeOptimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.5),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=2.0),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=100.0),
}
USUAL_DECAY: dict[str, MakeOptimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=5e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1),
    "none": lambda p: torch.optim.Adam(p, lr=1e-3),
}


@pytest.mark.parametrize("name", STRONG_DECAY)
def test_weight_decay_too_strong_reports_decay_above_gradient(name: str) -> None:
    assert len(fault_messages(setup_with_optimizer(STRONG_DECAY[name]), "O509")) == 1


@pytest.mark.parametrize("name", USUAL_DECAY)
def test_weight_decay_too_strong_ignores_usual_decay(name: str) -> None:
    assert fault_messages(setup_with_optimizer(USUAL_DECAY[name]), "O509") == []


@pytest.mark.parametrize(
    ("code", "make_optimizer", "line"),
    [
        ("O509", STRONG_DECAY["adam"], "weight_decay=2.0"),
        ("O510", lambda p: torch.optim.SGD(p, lr=0.1, momentum=1.5), "momentum=1.5"),
        ("O510", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.999), "momentum=0.999"),
        ("O510", lambda p: torch.optim.Adam(p, betas=(0.99, 0.5)), "betas=(0.99, 0.5)"),
        ("L213", lambda p: torch.optim.Adagrad(p, maximize=True), "maximize=True"),
    ],
)
def test_optimizer_rules_point_to_line_that_sets_option(code: str, make_optimizer: MakeOptimizer, line: str) -> None:
    (finding,) = rule_findings(setup_with_optimizer(make_optimizer, loss_fn=cross_entropy), code)
    assert finding.where.source is not None
    assert line in finding.where.source


@pytest.mark.parametrize("options", [{"momentum": 0.99}, {"momentum": 0.999, "dampening": 0.999}, {"momentum": 0.0}])
def test_odd_optimizer_setting_ignores_usual_momentum_and_averaged_gradients(options: dict[str, float]) -> None:
    assert fault_messages(setup_with_optimizer(lambda p: torch.optim.SGD(p, lr=0.1, **options)), "O510") == []


def test_schedule_misused_reports_scheduler_of_another_optimizer() -> None:
    setup = setup_with_optimizer(USUAL_DECAY["sgd"])
    setup.scheduler = torch.optim.lr_scheduler.StepLR(setup.optimizers[0], 5)
    assert fault_messages(setup, "O507") == []
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), lr=0.1),)
    assert len(fault_messages(setup, "O507")) == 1


def test_frozen_parameter_ranks_before_parameter_not_optimized() -> None:
    model = network(3)
    optimizer = torch.optim.Adam(model[2].parameters())
    model[2].requires_grad_(False)
    report = Debugger.of(minimal_setup(model, X, Y, cross_entropy, optimizers=(optimizer,))).checkup()
    assert [finding.code for finding in report.faults] == ["M302", "O503"]
