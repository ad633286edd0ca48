"""Tests of O503 for tensors that the loss depends on and no module holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(160, 6, generator=GENERATOR)
Y = torch.stack([X[:, 0] - X[:, 1], X[:, 2] * X[:, 3]], 1)


def uncertainties(output: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    return ((output - target).square().mean(0) * (-weights).exp() + weights).sum()


class Weighting:
    """Keeps the weights of the terms in an object that is no module."""

    def __init__(self) -> None:
        self.log_factors = torch.zeros(2, requires_grad=True)

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        return uncertainties(output, target, self.log_factors)


Case = tuple[Callable[[Tensor, Tensor], Tensor], list[Tensor], Callable[[], None]]


def closure() -> Case:
    log_weights = torch.zeros(2, requires_grad=True)
    return (lambda output, target: uncertainties(output, target, log_weights)), [], lambda: None


def parameter_in_object() -> Case:
    weighting = Weighting()
    weighting.log_factors = nn.Parameter(weighting.log_factors.detach())
    return weighting, [], lambda: None


def held_by_optimizer() -> Case:
    weighting = Weighting()
    return weighting, [weighting.log_factors], lambda: None


def updated_by_hand() -> Case:
    log_weights = torch.zeros(2, requires_grad=True)

    def update() -> None:
        with torch.no_grad():
            assert log_weights.grad is not None
            log_weights.sub_(0.01 * log_weights.grad)
            log_weights.grad = None

    return (lambda output, target: uncertainties(output, target, log_weights)), [], update


def scale_of_a_penalty() -> Case:
    """The penalty of invariant risk minimization: the gradient with respect to a scale of one."""
    scale = torch.ones(1, requires_grad=True)

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        loss = (output * scale - target).square().mean()
        (gradient,) = torch.autograd.grad(loss, [scale], create_graph=True)
        return loss + 0.1 * gradient.square().sum()

    return loss_fn, [], lambda: None


def made_in_each_call() -> Case:
    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        return uncertainties(output, target, torch.zeros(2, requires_grad=True))

    return loss_fn, [], lambda: None


def another_network() -> Case:
    judge = nn.Linear(2, 2)
    return (lambda output, target: (judge(output) - target).square().mean()), [], lambda: None


def findings(make: Callable[[], Case]) -> list[Finding]:
    torch.manual_seed(0)
    loss_fn, others, after_step = make()
    model, loader = nn.Linear(6, 2), DataLoader(TensorDataset(X, Y), 16, shuffle=True)
    optimizer = torch.optim.Adam([*model.parameters(), *others], lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(final_tests=False) as watch:
        for _ in range(4):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
                after_step()
    assert not watch.error_summary, watch.error_summary
    return [finding for finding in debugger.findings if finding.code == "O503"]


@pytest.mark.parametrize(
    ("make", "fix"),
    [(closure, "torch.optim.Adam([*model.parameters(), log_weights]"), (parameter_in_object, "too")],
)
def test_tensor_of_the_loss_that_no_optimizer_holds_is_reported(make: Callable[[], Case], fix: str) -> None:
    (finding,) = findings(make)
    assert ", a tensor that the loss depends on" in finding.message
    assert finding.severity == "warning"
    assert fix in finding.fix


@pytest.mark.parametrize(
    "make", [held_by_optimizer, updated_by_hand, scale_of_a_penalty, made_in_each_call, another_network]
)
def test_other_tensors_of_the_loss_are_not_reported(make: Callable[[], Case]) -> None:
    assert findings(make) == []


class Heads(nn.Module):
    """A criterion whose weights are kept in a part: a dictionary, a list or a module of the user's."""

    def __init__(self, part: nn.Module, read: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.part, self.read = part, read

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return uncertainties(output, target, self.read(self.part))


class Scales(nn.Module):
    """Scales of the terms in a module of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.zeros(2))


class Judge(nn.Module):
    """A network of a matrix that judges the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(1, 2))


def scalar() -> nn.Parameter:
    return nn.Parameter(torch.zeros(()))


WEIGHTED: dict[str, Callable[[], nn.Module]] = {
    "dictionary": lambda: Heads(nn.ParameterDict({"a": scalar(), "b": scalar()}), lambda p: torch.stack([*p.values()])),
    "list": lambda: Heads(nn.ParameterList([scalar(), scalar()]), lambda p: torch.stack([*p])),
    "list of one": lambda: Heads(nn.ParameterList([torch.zeros(2)]), lambda p: p[0]),
    "module": lambda: Heads(Scales(), lambda p: p.log),
    "list of modules": lambda: Heads(nn.ModuleList([Scales(), Scales()]), lambda p: (p[0].log + p[1].log) / 2),
}
FIXED: dict[str, Callable[[], nn.Module]] = {
    "layer": lambda: Heads(nn.Linear(1, 2), lambda p: p(torch.ones(1))),
    "norm": lambda: Heads(nn.LayerNorm(2), lambda p: p(torch.arange(2.0))),
    "network": lambda: Heads(nn.Sequential(nn.Linear(1, 2), nn.Tanh()), lambda p: p(torch.ones(1))),
    "matrix": lambda: Heads(Judge(), lambda p: p.matrix[0]),
    "frozen": lambda: Heads(Scales().requires_grad_(requires_grad=False), lambda p: p.log),
}


@pytest.mark.parametrize("has_optimizer", [True, False])
@pytest.mark.parametrize("name", [*WEIGHTED, *FIXED])
def test_weights_in_parts_of_the_loss_are_its_own_unless_they_are_a_network(name: str, has_optimizer: bool) -> None:
    def make() -> Case:
        criterion = {**WEIGHTED, **FIXED}[name]()
        return criterion, [*criterion.parameters()] if has_optimizer else [], lambda: None

    reported = findings(make)
    assert len(reported) == (name in WEIGHTED and not has_optimizer)
    assert all("of the loss, so no step updates" in finding.message for finding in reported)
