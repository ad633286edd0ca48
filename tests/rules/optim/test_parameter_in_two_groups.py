"""O513: overlapping groups, and groups that only look as if they did."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points

Optimizers = tuple[torch.optim.Optimizer, ...]
X, Y = points()


def found(model: nn.Module, *optimizers: torch.optim.Optimizer) -> list[Finding]:
    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=optimizers)
    return [one for one in Debugger.of(setup).checkup() if one.code == "O513"]


def twice_in_one_group(model: nn.Sequential) -> Optimizers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (torch.optim.Adam([*model.parameters(), *model[2].parameters()]),)


def group_changed_later(model: nn.Sequential) -> Optimizers:
    optimizer = torch.optim.AdamW([{"params": model[0].parameters()}, {"params": model[2].parameters()}])
    optimizer.param_groups[0]["params"] += list(model[2].parameters())
    return (optimizer,)


def weight_alone(model: nn.Sequential) -> Optimizers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (torch.optim.SGD([*model.parameters(), model[2].weight], lr=0.1),)


@pytest.mark.parametrize("build", [twice_in_one_group, group_changed_later, weight_alone])
def test_twice_in_one_optimizer_is_an_error(build: Callable[[nn.Sequential], Optimizers]) -> None:
    model = network(3)
    (one,) = found(model, *build(model))
    assert one.severity == "error"
    assert one.where.module == "2"


def test_two_optimizers_that_may_take_turns_are_a_note() -> None:
    model = network(3)
    both = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())
    assert {one.severity for one in found(model, *both)} == {"note"}


def test_disjoint_groups_and_optimizers_draw_nothing() -> None:
    model = network(3)
    groups = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.2}], lr=0.1)
    assert found(model, groups) == []
    assert found(model, torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())) == []


def test_tied_weights_and_frozen_parameters_draw_nothing() -> None:
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Linear(4, 3))
    tied[2].weight = tied[0].weight
    assert found(tied, torch.optim.SGD(tied.parameters(), lr=0.1)) == []
    frozen = network(3)
    optimizers = weight_alone(frozen)
    frozen[2].requires_grad_(False)
    assert found(frozen, *optimizers) == []


class Wrapped(torch.optim.SGD):
    """An optimizer that lets another one step for it."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, lr=0.1)
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


@pytest.mark.parametrize(("together", "says"), [(True, ["error"]), (False, [])])
def test_a_loop_in_which_two_optimizers_step_after_one_backward_pass(together: bool, says: list[str]) -> None:
    model = network(3)
    several = [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(model[2].parameters(), lr=0.1)]
    assert stepped(model, [several] if together else [[one] for one in several]) == says


def test_an_optimizer_that_wraps_another_steps_once() -> None:
    model = network(3)
    assert stepped(model, [[Wrapped(torch.optim.SGD(model.parameters(), lr=0.1))]]) == []


def stepped(model: nn.Module, turns: list[list[torch.optim.Optimizer]]) -> list[str | None]:
    """The severity of what is said of a loop with a backward pass before each turn of some optimizers."""
    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=(turns[0][0],))
    debugger = Debugger.of(setup)
    with debugger.watch():
        for x, y in [*setup.train_loader] * 2:
            for turn in turns:
                model.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                for one in turn:
                    one.step()
    return [one.severity for one in debugger.findings if one.code == "O513"]
