"""Tests of G403 for sigmoids between layers, and of sigmoids that are gates or learn well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.registry import Measurements
from nbdebug.records import Record
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

WIDTH = 24


def layers(activation: Callable[[], nn.Module], depth: int) -> nn.Module:
    hidden = [part for k in range(depth) for part in (nn.Linear(WIDTH if k else 8, WIDTH), activation())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, 2))


class ByHand(nn.Module):
    """Calls the function, with dropout and views between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.head = (nn.Linear(n, WIDTH) for n in (8, WIDTH, WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(torch.sigmoid(self.first(x)), 0.1, self.training)
        x = F.sigmoid(self.second(x)).view(len(x), -1)
        scores: Tensor = self.head(self.third(x).sigmoid())
        return scores


class Gated(nn.Module):
    """Two gates, whose sigmoids multiply other values."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 2)
        self.gates = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.embed(x))
        for gate in self.gates:
            x = x * torch.sigmoid(gate(x))
        scores: Tensor = self.head(x)
        return scores


def setup(make: Callable[[], nn.Module], lr: float) -> Setup:
    torch.manual_seed(0)
    data = rings()
    return training_setup(make(), data, data, nn.CrossEntropyLoss(), lr=lr)


@pytest.mark.parametrize("make", [lambda: layers(nn.Sigmoid, 4), ByHand], ids=["modules", "functions"])
def test_sigmoids_between_layers_that_hinder_training_are_reported(make: Callable[[], nn.Module]) -> None:
    (finding,) = rule_faults(setup(make, 3e-3), "G403")
    losses, centered = finding.evidence["loss"], finding.evidence["loss with centered sigmoids"]
    start = min(losses[0], centered[0], finding.evidence["loss of a constant prediction"])
    assert start - losses[1] < 0.25 * (start - centered[1])
    assert finding.where.source is not None or finding.where.module == "1"


@pytest.mark.parametrize(
    ("make", "lr"),
    [
        (lambda: layers(nn.Tanh, 4), 3e-3),
        (lambda: layers(nn.Sigmoid, 1), 3e-3),
        (lambda: layers(nn.Sigmoid, 2), 5e-2),
        (Gated, 3e-3),
        (lambda: mlp(8, 16, 2, seed=0), 3e-3),
    ],
    ids=["tanh", "one layer", "rate that suits sigmoids", "gates", "relu"],
)
def test_other_activations_and_sigmoids_that_learn_are_not_reported(make: Callable[[], nn.Module], lr: float) -> None:
    assert rule_faults(setup(make, lr), "G403") == []


def test_gates_are_not_tried() -> None:
    assert Measurements(setup(Gated, 3e-3))["hidden_sigmoids"] is None


def test_nothing_is_tried_while_the_loop_runs() -> None:
    with pytest.raises(NotChecked):
        Measurements(setup(ByHand, 3e-3), record=Record())["hidden_sigmoids"]
