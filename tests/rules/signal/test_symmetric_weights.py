"""G407: units that stay equal, and units that only begin so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.healthy_models import Adapter

X, Y = points()


def found(setup: Setup) -> list[Finding]:
    return [one for one in Debugger.of(setup).checkup(select=["G407"]) if one.code == "G407"]


def of(model: nn.Module, x: Tensor = X, y: Tensor = Y) -> Setup:
    return minimal_setup(model, x, y, nn.CrossEntropyLoss())


def filled(model: nn.Module, value: float, only: str = "") -> nn.Module:
    for name, parameter in model.named_parameters():
        if only in name:
            nn.init.constant_(parameter, value)
    return model


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.unsqueeze(1).expand(-1, 3, -1))[0][:, -1])


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(8, 4)), nn.Parameter(torch.zeros(3, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.first.T) @ self.second.T


def convolutional(value: float) -> nn.Module:
    return filled(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), value)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "constant": (lambda: of(filled(network(3), 0.1)), "0.weight"),
    "zero": (lambda: of(filled(network(3), 0.0)), "0.weight"),
    "zero in bfloat16": (lambda: of(filled(network(3), 0.0).bfloat16(), X.bfloat16()), "0.weight"),
    "convolution": (lambda: of(convolutional(0.01), torch.rand(64, 1, 6, 6)), "0.weight"),
    "recurrent": (lambda: of(filled(Recurrent(), 0.05)), "lstm.weight_ih_l0"),
    "parameters by hand": (lambda: of(ByHand()), "first"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_units_that_stay_equal_are_found(name: str) -> None:
    build, parameter = FAULTS[name]
    assert parameter in {one.where.parameter for one in found(build())}


class Residual(nn.Module):
    """Two branches whose last layers are zero, so that at first nothing inside them gets a gradient."""

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
    """A zero layer in front of and behind a copy, as in a control network."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.before, self.copy, self.after = (nn.Linear(4, 4) for _ in range(4))
        self.head = nn.Linear(4, 3)
        for gate in (self.before, self.after):
            filled(gate, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x) + self.after(torch.relu(self.copy(x + self.before(x)))))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.position, self.head = nn.Embedding(500, 8), nn.Parameter(torch.zeros(1, 6, 8)), nn.Linear(8, 3)
        nn.init.zeros_(self.table.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.table(x) + self.position).mean(1))


HEALTHY: dict[str, Callable[[], Setup]] = {
    "random": lambda: of(network(3)),
    "head of zeros": lambda: of(filled(network(3), 0.0, "2.")),
    "head of zeros, many classes": lambda: of(filled(network(200), 0.0, "2.")),
    "residual branches of zero": lambda: of(Residual()),
    "zero gates": lambda: of(ZeroGates()),
    "low-rank adapter": lambda: of(Adapter()),
    "embedding and positions of zero": lambda: of(Tokens(), torch.randint(0, 500, (64, 6))),
    "logistic regression from zero": lambda: of(filled(nn.Linear(4, 3), 0.0)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_units_that_part_are_left_alone(name: str) -> None:
    torch.manual_seed(0)
    setup = HEALTHY[name]()
    before = [p.detach().clone() for p in setup.model.parameters()]
    assert found(setup) == []
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
