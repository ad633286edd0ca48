"""Tests of O513: overlapping groups, and groups that only seem to overlap."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from tests.loop_monitor.test_places import assert_marked
from tests.loop_monitor.watched_loops import all_findings, load_loop
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


LOOP = """\
    for _ in range(3):
        for x, y in setup.train_loader:
            model.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
"""
PROGRAM = "import torch\nfrom torch import nn\nfrom torch.optim import SGD, RMSprop\n"
STEPS = "            first.step()\n            second.step()\n"
HOLDERS = {
    "the first has all parameters": (
        "def train(setup):\n    model = setup.model\n    first = RMSprop(model.parameters(), lr=1e-3)  # here\n"
        f"    second = SGD(model[2].parameters(), lr=1e-2)\n{LOOP}{STEPS}"
    ),
    "the second has all parameters, of the same class": (
        "def train(setup):\n    model = setup.model\n    first = RMSprop(model[2].parameters(), lr=1e-3)\n"
        f"    second = RMSprop(model.parameters(), lr=1e-3)  # here\n{LOOP}{STEPS}"
    ),
    "the first of a dictionary has all parameters": (
        "def make(model):\n    return {\n        'all': SGD(model.parameters(), lr=1e-2),  # here\n"
        "        'head': RMSprop(model[2].parameters(), lr=1e-3),\n    }\n"
        f"def train(setup):\n    model = setup.model\n    both = make(model)\n{LOOP}"
        "            for item in both.values():\n                item.step()\n"
    ),
    "attributes, and the one with all parameters steps first": (
        "class Trainer:\n    def __init__(self, model):\n        self.head = SGD(model[2].parameters(), lr=1e-2)\n"
        "        self.whole = SGD(model.parameters(), lr=1e-3)  # here\n"
        f"def train(setup):\n    model = setup.model\n    trainer = Trainer(model)\n{LOOP}"
        "            trainer.whole.step()\n            trainer.head.step()\n"
    ),
    "both have parameters of their own": (
        "def train(setup):\n    model = setup.model\n"
        "    first = SGD([*model[0].parameters(), model[2].bias], lr=1e-2)\n"
        f"    second = RMSprop(model[2].parameters(), lr=1e-3)  # here\n{LOOP}{STEPS}"
    ),
    "both have all parameters, and the later steps first": (
        "def train(setup):\n    model = setup.model\n    second = SGD(model.parameters(), lr=1e-2)\n"
        f"    first = RMSprop(model.parameters(), lr=1e-3)  # here\n{LOOP}{STEPS}"
    ),
    "a list whose items are not known": (
        "def train(setup):\n    model = setup.model\n"
        f"    both = [kind(model.parameters(), lr=1e-3) for kind in (SGD, SGD)]\n{LOOP}"
        "            for item in both:\n                item.step()  # here\n"
    ),
}
HEALTHY = {
    "disjoint parts": ("model[0].parameters()", "model[2].parameters()", STEPS),
    "one of two holds all and never steps": (
        "model.parameters()",
        "model[2].parameters()",
        "            second.step()\n",
    ),
    "a pass before each step": (
        "model.parameters()",
        "model[2].parameters()",
        "            first.step()\n            model.zero_grad()\n"
        "            nn.functional.cross_entropy(model(x), y).backward()\n            second.step()\n",
    ),
    "turns of epochs": (
        "model.parameters()",
        "model[2].parameters()",
        "            (first if _ % 2 else second).step()\n",
    ),
    "the same optimizer under two names": ("model.parameters()", "", "            first.step()\n"),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_parameter_in_two_groups_names_the_creation_of_the_optimizer_with_too_many(name: str, tmp_path: Path) -> None:
    setup = minimal_setup(network(3), X, Y, nn.CrossEntropyLoss())
    found = all_findings(load_loop(tmp_path / "loop.py", PROGRAM + HOLDERS[name]), setup)
    assert_marked(found, "O513")
    (finding,) = [finding for finding in found if finding.code == "O513"]
    assert all("step(" in (line.where.source or "") for line in finding.related)


@pytest.mark.parametrize("name", HEALTHY)
def test_parameter_in_two_groups_is_silent_about_two_optimizers(name: str, tmp_path: Path) -> None:
    first, second, steps = HEALTHY[name]
    second_line = f"    second = SGD({second}, lr=1e-2)\n" if second else "    second = first\n"
    body = (
        f"def train(setup):\n    model = setup.model\n    first = RMSprop({first}, lr=1e-3)\n{second_line}{LOOP}{steps}"
    )
    setup = minimal_setup(network(3), X, Y, nn.CrossEntropyLoss())
    found = all_findings(load_loop(tmp_path / "loop.py", PROGRAM + body), setup)
    assert not [finding for finding in found if finding.code == "O513" and finding.severity == "error"]
