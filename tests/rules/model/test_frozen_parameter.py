"""M302: what is frozen by accident is loud, what is frozen on purpose is a note."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.healthy_models import Adapter, FrozenBackbone

X, Y = points()


def found(setup: Setup) -> list[Finding]:
    return [one for one in Debugger.of(setup).checkup(select=["M302"]) if one.code == "M302"]


def of(model: nn.Module, held: nn.Module | None = None) -> Setup:
    optimizer = torch.optim.SGD((held or model).parameters(), lr=0.1)
    return minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=(optimizer,))


class Classifier(nn.Module):
    """A body with a normalization and a head, in the words of a transfer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.fc = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.norm(self.body(x))))


class Stack(nn.Module):
    """Blocks in a list, some frozen."""

    def __init__(self, *frozen: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))
        self.head = nn.Linear(4, 3)
        for index in frozen:
            self.blocks[index].requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.head(x)


def only_norm() -> Setup:
    model = Classifier().requires_grad_(False)
    model.norm.requires_grad_(True)
    return of(model)


def only_biases() -> Setup:
    model = network(3)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name == "0.bias"
    return of(model)


def frozen_after_the_optimizer() -> Setup:
    model = Classifier()
    setup = of(model, model.fc)
    model.fc.requires_grad_(False)
    return setup


def in_the_middle() -> Setup:
    return of(Stack(2))


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "nothing but normalization learns": (only_norm, "fc"),
    "nothing but a bias learns": (only_biases, "2"),
    "one block of five": (in_the_middle, "blocks.2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_accident_is_a_warning_at_its_module(name: str) -> None:
    build, module = FAULTS[name]
    (one,) = found(build())
    assert one.severity == "warning"
    assert one.where.module == module


def test_an_optimizer_of_frozen_parameters_comes_before_what_it_leaves_out() -> None:
    loud = Debugger.of(frozen_after_the_optimizer()).checkup().faults
    assert (loud[0].code, loud[0].severity, loud[0].where.module) == ("M302", "error", "fc")
    assert "O503" in [one.code for one in loud[1:]]


def prompt() -> nn.Module:
    class Prompted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prompt, self.body = nn.Parameter(torch.zeros(1, 4)), network(3).requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x + self.prompt)

    return Prompted()


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "frozen backbone": FrozenBackbone,
    "low-rank adapter": Adapter,
    "learned prompt": prompt,
    "first blocks frozen": lambda: Stack(0, 1),
    "only the last block and the head": lambda: Stack(0, 1, 2, 3),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_frozen_on_purpose_is_a_note(name: str) -> None:
    assert [one.severity for one in found(of(HEALTHY[name]()))] == ["note"]


def test_a_model_that_learns_as_a_whole_draws_nothing() -> None:
    assert found(of(Stack())) == []
