"""Tests of G407: units that stay equal, and units that are equal only at the start."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.healthy_models import Adapter
from tests.rules.rule_findings import rule_findings

X, Y = points()


def setup_of(model: nn.Module, x: Tensor = X, y: Tensor = Y) -> Setup:
    return minimal_setup(model, x, y, nn.CrossEntropyLoss())


def fill(model: nn.Module, value: float, name_part: str = "") -> nn.Module:
    for name, parameter in model.named_parameters():
        if name_part in name:
            nn.init.constant_(parameter, value)
    return model


class LastState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.unsqueeze(1).expand(-1, 3, -1))[0][:, -1])


class ManualNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(8, 4)), nn.Parameter(torch.zeros(3, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.first.T) @ self.second.T


def convolutional(value: float) -> nn.Module:
    return fill(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), value)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "constant": (lambda: setup_of(fill(network(3), 0.1)), "0.weight"),
    "zero": (lambda: setup_of(fill(network(3), 0.0)), "0.weight"),
    "zero in bfloat16": (lambda: setup_of(fill(network(3), 0.0).bfloat16(), X.bfloat16()), "0.weight"),
    "convolution": (lambda: setup_of(convolutional(0.01), torch.rand(64, 1, 6, 6)), "0.weight"),
    "recurrent": (lambda: setup_of(fill(LastState(), 0.05)), "lstm.weight_ih_l0"),
    "parameters without modules": (lambda: setup_of(ManualNetwork()), "first"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_symmetric_weights_of_equal_units_are_reported_at_parameter(name: str) -> None:
    build, parameter = FAULTS[name]
    assert parameter in {finding.where.parameter for finding in rule_findings(build(), "G407")}


class ZeroBranches(nn.Module):
    """Residual branches with a last layer of zero, so that their first layer gets no gradient in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)) for _ in range(2))
        self.head = nn.Linear(4, 3)
        for branch in self.branches:
            nn.init.zeros_(branch[2].weight)

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = x + branch(x)
        return self.head(x)


class ZeroGates(nn.Module):
    """A copy between two layers of zero, as in ControlNet."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.before, self.copy, self.after = (nn.Linear(4, 4) for _ in range(4))
        self.head = nn.Linear(4, 3)
        for gate in (self.before, self.after):
            fill(gate, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x) + self.after(torch.relu(self.copy(x + self.before(x)))))


class ZeroEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.position, self.head = nn.Embedding(500, 8), nn.Parameter(torch.zeros(1, 6, 8)), nn.Linear(8, 3)
        nn.init.zeros_(self.table.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.table(x) + self.position).mean(1))


HEALTHY: dict[str, Callable[[], Setup]] = {
    "random": lambda: setup_of(network(3)),
    "head of zeros": lambda: setup_of(fill(network(3), 0.0, "2.")),
    "head of zeros, many classes": lambda: setup_of(fill(network(200), 0.0, "2.")),
    "residual branches of zero": lambda: setup_of(ZeroBranches()),
    "zero gates": lambda: setup_of(ZeroGates()),
    "low-rank adapter": lambda: setup_of(Adapter()),
    "embedding and positions of zero": lambda: setup_of(ZeroEmbedding(), torch.randint(0, 500, (64, 6))),
    "logistic regression from zero": lambda: setup_of(fill(nn.Linear(4, 3), 0.0)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_symmetric_weights_ignores_diverging_units_and_leaves_weights_unchanged(name: str) -> None:
    torch.manual_seed(0)
    setup = HEALTHY[name]()
    before = [p.detach().clone() for p in setup.model.parameters()]
    assert rule_findings(setup, "G407") == []
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
