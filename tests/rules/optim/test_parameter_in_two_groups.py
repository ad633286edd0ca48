"""Tests of O513: overlapping groups, and groups that only seem to overlap."""

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
from tests.rules.rule_findings import checkup_findings

Optimizers = tuple[torch.optim.Optimizer, ...]
X, Y = points()


def findings(model: nn.Module, *optimizers: torch.optim.Optimizer) -> list[Finding]:
    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=optimizers)
    return checkup_findings(setup, "O513")


def duplicate_in_one_group(model: nn.Sequential) -> Optimizers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (torch.optim.Adam([*model.parameters(), *model[2].parameters()]),)


def group_extended_later(model: nn.Sequential) -> Optimizers:
    optimizer = torch.optim.AdamW([{"params": model[0].parameters()}, {"params": model[2].parameters()}])
    optimizer.param_groups[0]["params"] += list(model[2].parameters())
    return (optimizer,)


def duplicate_weight(model: nn.Sequential) -> Optimizers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (torch.optim.SGD([*model.parameters(), model[2].weight], lr=0.1),)


@pytest.mark.parametrize("build", [duplicate_in_one_group, group_extended_later, duplicate_weight])
def test_parameter_in_two_groups_of_same_optimizer_is_error(build: Callable[[nn.Sequential], Optimizers]) -> None:
    model = network(3)
    (finding,) = findings(model, *build(model))
    assert finding.severity == "error"
    assert finding.where.module == "2"


def test_parameter_in_two_groups_of_separate_optimizers_is_note() -> None:
    model = network(3)
    optimizers = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())
    assert {finding.severity for finding in findings(model, *optimizers)} == {"note"}


def test_parameter_in_two_groups_ignores_disjoint_groups_and_optimizers() -> None:
    model = network(3)
    groups = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.2}], lr=0.1)
    assert findings(model, groups) == []
    separate = torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())
    assert findings(model, *separate) == []


def test_parameter_in_two_groups_ignores_tied_weights_and_frozen_parameters() -> None:
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Linear(4, 3))
    tied[2].weight = tied[0].weight
    assert findings(tied, torch.optim.SGD(tied.parameters(), lr=0.1)) == []
    frozen = network(3)
    optimizers = duplicate_weight(frozen)
    frozen[2].requires_grad_(False)
    assert findings(frozen, *optimizers) == []


class WrapperOptimizer(torch.optim.SGD):
    """An optimizer whose step is that of another optimizer."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, lr=0.1)
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


@pytest.mark.parametrize(("same_backward", "severities"), [(True, ["error"]), (False, [])])
def test_parameter_in_two_groups_in_loop_is_error_if_both_step_after_same_backward(
    same_backward: bool, severities: list[str]
) -> None:
    model = network(3)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(model[2].parameters(), lr=0.1)]
    turns = [optimizers] if same_backward else [[optimizer] for optimizer in optimizers]
    assert loop_severities(model, turns) == severities


def test_parameter_in_two_groups_in_loop_ignores_wrapper_optimizer() -> None:
    model = network(3)
    assert loop_severities(model, [[WrapperOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))]]) == []


def loop_severities(model: nn.Module, turns: list[list[torch.optim.Optimizer]]) -> list[str | None]:
    """Return the severities of O513 in a loop with one backward pass before each turn of optimizers."""
    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=(turns[0][0],))
    debugger = Debugger.of(setup)
    with debugger.watch():
        for x, y in [*setup.train_loader] * 2:
            for turn in turns:
                model.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                for optimizer in turn:
                    optimizer.step()
    return [finding.severity for finding in debugger.findings if finding.code == "O513"]
