"""Tests of G407 on layers side by side: copies that stay equal, and copies that diverge."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
Combine = Callable[[list[Tensor]], Tensor]


class Branches(nn.Module):
    """Layers side by side, as copies of one of them, whose outputs are combined."""

    def __init__(self, combine: Combine, count: int = 3, branch: nn.Module | None = None) -> None:
        super().__init__()
        first = branch or nn.Linear(4, 8)
        self.branches = nn.ModuleList([first, *(copy.deepcopy(first) for _ in range(count - 1))])
        self.combine, self.head = combine, nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.combine([branch(x) for branch in self.branches])))


class Ensemble(nn.Module):
    """Members that are initialized with the weights of the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2))
        self.two.load_state_dict(self.one.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        return (self.one(x) + self.two(x)) / 2


class StackedWeights(nn.Module):
    """Two weight matrices without modules, the second one a copy."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.randn(4, 8) / 2)
        self.right = nn.Parameter(self.left.detach().clone())
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.maximum(x @ self.left, x @ self.right))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(2, 8)
        self.right, self.head = copy.deepcopy(self.left), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.left(x[:, :2]).relu() + self.right(x[:, 2:]).relu())


class ControlBranch(nn.Module):
    """A trainable copy behind a layer of zeros, as in ControlNet."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.gate, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.copy = copy.deepcopy(self.base)
        nn.init.zeros_(self.gate.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x) + self.gate(torch.relu(self.copy(x))))


def setup_of(model: nn.Module) -> Setup:
    return minimal_setup(model, X, Y, nn.CrossEntropyLoss())


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Unflatten(1, (1, 4)), encoder, nn.Flatten(), nn.Linear(4, 3))


FAULTS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "maxout": (lambda: Branches(lambda parts: torch.stack(parts).amax(0)), "branches"),
    "mean": (lambda: Branches(lambda parts: torch.stack(parts).mean(0), 2), "branches"),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 4)),
            Branches(lambda parts: sum(parts[1:], parts[0]).flatten(1), branch=nn.Conv1d(1, 4, 3)),  # type: ignore[arg-type]
        ),
        "1.branches",
    ),
    "ensemble": (Ensemble, ""),
    "parameters without modules": (StackedWeights, ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_symmetric_weights_of_equal_branches_are_reported_at_their_parent(name: str) -> None:
    build, parent = FAULTS[name]
    findings = rule_findings(setup_of(build()), "G407")
    assert findings
    assert {finding.where.module or "" for finding in findings} == {parent}
    assert all(finding.severity == "error" and "same gradients" in finding.message for finding in findings)


def test_symmetric_weights_of_copied_members_names_the_line_that_copies() -> None:
    finding, *_ = rule_findings(setup_of(Ensemble()), "G407")
    assert finding.where.source is not None
    assert "load_state_dict" in finding.where.source


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "branches of their own": lambda: Branches(lambda parts: parts[0], 1),
    "copies in series": transformer,
    "copies with other inputs": TwoInputs,
    "copy behind zeros": ControlBranch,
    "copies with other weights in the sum": lambda: Branches(lambda parts: 0.7 * parts[0] + 0.3 * parts[1], 2),
    "copies with dropout": lambda: Branches(
        lambda parts: torch.stack(parts).mean(0), branch=nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 8))
    ),
    "copies with random switches": lambda: Branches(lambda parts: parts[0] + torch.rand(1) * parts[1], 2),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_symmetric_weights_ignores_copies_with_other_gradients(name: str) -> None:
    torch.manual_seed(0)
    setup = setup_of(HEALTHY[name]())
    before = [p.detach().clone() for p in setup.model.parameters()]
    assert rule_findings(setup, "G407") == []
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
