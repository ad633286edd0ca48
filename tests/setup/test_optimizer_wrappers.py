"""Tests of optimizers that wrap another one: SAM, Lookahead, the wrapper of Accelerate, and two optimizers in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.setup.setup import as_optimizers, unwrap_optimizer

EPOCHS, BATCHES = 4, 10


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimization: steps of the base optimizer with gradients at a perturbed point."""

    def __init__(self, parameters: Any, **options: Any) -> None:
        super().__init__(parameters, {"rho": 0.05, **options})
        self.base_optimizer = torch.optim.SGD(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    def parameters(self) -> list[nn.Parameter]:
        return [p for group in self.param_groups for p in group["params"] if p.grad is not None]

    @torch.no_grad()
    def ascend(self) -> None:
        norm = torch.stack([p.grad.norm() for p in self.parameters()]).norm()
        for parameter in self.parameters():
            self.state[parameter]["shift"] = shift = parameter.grad * 0.05 / (norm + 1e-12)
            parameter.add_(shift)
        self.zero_grad()

    @torch.no_grad()
    def descend(self) -> None:
        for parameter in self.parameters():
            parameter.sub_(self.state[parameter]["shift"])
        self.base_optimizer.step()
        self.zero_grad()


class Lookahead:
    """Slow weights that follow those of another optimizer; not a torch optimizer itself."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner, self.steps = inner, 0
        self.slow = [p.detach().clone() for group in inner.param_groups for p in group["params"]]

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    def step(self) -> None:
        self.inner.step()
        self.steps += 1
        if self.steps % 5 == 0:
            parameters = [p for group in self.inner.param_groups for p in group["params"]]
            with torch.no_grad():
                for slow, parameter in zip(self.slow, parameters, strict=True):
                    slow.lerp_(parameter, 0.5)
                    parameter.copy_(slow)


class DelegatingOptimizer(torch.optim.Optimizer):
    """Delegates everything to one or two optimizers, as wrappers for distributed training do."""

    def __init__(self, first: torch.optim.Optimizer, second: torch.optim.Optimizer | None = None) -> None:
        self.first, self.second, self.state, self.defaults = first, second, first.state, first.defaults
        self.param_groups = [*first.param_groups, *(second.param_groups if second else ())]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in (self.first, self.second):
            if optimizer is not None:
                optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> None:
        self.first.step()
        if self.second is not None:
            self.second.step()


def sgd_and_adam(model: nn.Sequential) -> DelegatingOptimizer:
    return DelegatingOptimizer(torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[2].parameters()))


def train_plainly(loss: Callable[[], torch.Tensor], optimizer: Any) -> None:
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()


def train_with_sam(loss: Callable[[], torch.Tensor], optimizer: SAM) -> None:
    loss().backward()
    optimizer.ascend()
    loss().backward()
    optimizer.descend()


WRAPPERS: dict[str, tuple[Callable[[nn.Sequential], Any], Callable[..., None], list[type]]] = {
    "SAM": (lambda model: SAM(model.parameters(), lr=0.1), train_with_sam, [torch.optim.SGD]),
    "Lookahead": (lambda m: Lookahead(torch.optim.SGD(m.parameters(), 0.1)), train_plainly, [torch.optim.SGD]),
    "delegating": (lambda m: DelegatingOptimizer(torch.optim.Adam(m.parameters())), train_plainly, [torch.optim.Adam]),
    "wrapper in a wrapper": (
        lambda model: DelegatingOptimizer(SAM(model.parameters(), lr=0.1)),
        lambda loss, optimizer: train_with_sam(loss, optimizer.first),
        [torch.optim.SGD],
    ),
    "two in one": (sgd_and_adam, train_plainly, [torch.optim.SGD, torch.optim.Adam]),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_watch_of_wrapped_optimizer_counts_each_step_and_is_quiet(name: str) -> None:
    create, train, kinds = WRAPPERS[name]
    x = torch.randn(20 * BATCHES, 8)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 20, shuffle=True)
    model, loss_fn = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)), nn.CrossEntropyLoss()
    optimizer = create(model)
    debugger = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    assert [type(item) for item in debugger.setup.optimizers] == kinds
    assert debugger.checkup().findings == ()
    with debugger.watch() as watch:
        for _ in range(EPOCHS):
            for inputs, target in loader:
                train(lambda inputs=inputs, target=target: loss_fn(model(inputs), target), optimizer)
    assert watch.result.steps == EPOCHS * BATCHES
    assert [finding for finding in watch.result.report.findings if finding.severity == "error"] == []


def test_scheduler_of_wrapper_is_that_of_wrapped_optimizer() -> None:
    model = nn.Sequential(nn.Linear(4, 2))
    optimizer = SAM(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(2, (8,)))]
    for scheduled in (optimizer, optimizer.base_optimizer):
        debugger = nbdebug.Debugger(
            model,
            loader,
            loss_fn=nn.CrossEntropyLoss(),
            optimizer=optimizer,
            scheduler=torch.optim.lr_scheduler.StepLR(scheduled, 5),
        )
        assert [finding.code for finding in debugger.checkup().findings if finding.code == "O507"] == []


def test_unwrap_optimizer_keeps_optimizer_with_reference_to_another_model() -> None:
    first, second = (torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1) for _ in range(2))
    first.teacher_optimizer = second  # type: ignore[attr-defined]
    assert unwrap_optimizer(first) == [first]
    assert as_optimizers([first, second]) == (first, second)
    assert unwrap_optimizer(object()) == []
