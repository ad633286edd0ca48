"""Tests of the search for the call that creates an object."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.source.creation import find_creation
from tests.source.source_modules import load_module

HEADER = """\
from functools import partial
import torch
from torch import nn
from torch.optim import SGD as Descent
Optimizer = torch.optim.SGD
class Trainer:
    pass
"""

# The line with "here" creates what `build` returns; no line for programs without it.
PROGRAMS = {
    "variable": "def build(p):\n    optimizer = torch.optim.SGD(p, lr=3.0)  # here\n    return optimizer\n",
    "returned by a helper": "def make(p):\n    return torch.optim.SGD(p)  # here\ndef build(p):\n    return make(p)\n",
    "imported under another name": "def build(p):\n    return Descent(p, 0.1)  # here\n",
    "stored under another name": "def build(p):\n    return Optimizer(p, 0.1)  # here\n",
    "partial application": "make = partial(torch.optim.SGD, lr=0.1)  # here\ndef build(p):\n    return make(p)\n",
    "lambda in a dictionary": (
        "makers = {'sgd': lambda p: torch.optim.SGD(p, lr=0.1), 'adam': lambda p: torch.optim.Adam(p)}  # here\n"
        "def build(p):\n    return makers['sgd'](p)\n"
    ),
    "several lines": "def build(p):\n    return torch.optim.SGD(  # here\n        p,\n        lr=0.1,\n    )\n",
    "told apart by an option": (
        "def build(p):\n    first = torch.optim.SGD(p, lr=0.1)\n"
        "    second = torch.optim.SGD(p, lr=0.2)  # here\n    return second\n"
    ),
    "told apart by an omitted option": (
        "def other(p):\n    return torch.optim.SGD(p)\n"
        "def build(p):\n    return torch.optim.SGD(p, momentum=0.9)  # here\n"
    ),
    "told apart by an attribute": (
        "def build(p):\n    trainer = Trainer()\n    trainer.first = torch.optim.SGD(p)\n"
        "    trainer.second = torch.optim.SGD(p)  # here\n    build.trainer = trainer\n    return trainer.second\n"
    ),
    "told apart by a key": (
        "def build(p):\n    build.optimizers = {'first': torch.optim.SGD(p),\n"
        "        'second': torch.optim.SGD(p)}  # here\n    return build.optimizers['second']\n"
    ),
    "equal calls without names": (
        "def other(p):\n    return torch.optim.SGD(p)\ndef build(p):\n    return torch.optim.SGD(p)\n"
    ),
    "a name and an equal call without one": (
        "def make(p):\n    return torch.optim.SGD(p)\n"
        "def other(p):\n    optimizer = torch.optim.SGD(p)\n"
        "def build(p):\n    build.optimizer = make(p)\n    return build.optimizer\n"
    ),
    "no call": "def build(p):\n    return getattr(torch.optim, 'S' + 'GD')(p)\n",
}


def marked_line(text: str) -> int | None:
    return next((number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# here")), None)


@pytest.mark.parametrize("is_weighted", [True, False])
def test_find_creation_tells_a_loss_with_class_weights_from_one_without(tmp_path: Path, is_weighted: bool) -> None:
    text = (
        "def build(weighted):\n    if weighted:\n        return nn.CrossEntropyLoss(weight=torch.ones(3))\n"
        "    return nn.CrossEntropyLoss()\n"
    )
    module = load_module(tmp_path / "losses.py", HEADER + text)
    creation = find_creation(module.build(is_weighted), [str(tmp_path / "losses.py")])
    assert creation is not None
    assert ("weight=" in creation.line.text) == is_weighted


@pytest.mark.parametrize("name", PROGRAMS)
def test_find_creation_returns_the_call_that_created_an_optimizer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEADER + PROGRAMS[name]
    module = load_module(tmp_path / f"program_{len(name)}.py", text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    created = module.build([module.torch.zeros(1, requires_grad=True)])
    creation = find_creation(created, [str(module.__file__)])
    assert (creation.line.number if creation else None) == marked_line(text)


def test_find_creation_searches_imported_modules_if_no_given_file_creates_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import torch\nclass OwnDescent(torch.optim.SGD):\n    pass\ndef build(p):\n    return OwnDescent(p)  # here\n"
    )
    module = load_module(tmp_path / "own_descent.py", text)
    created = module.build([module.torch.zeros(1, requires_grad=True)])
    assert find_creation(created, []) is None
    monkeypatch.setitem(sys.modules, module.__name__, module)

    creation = find_creation(created, [])
    assert creation is not None
    assert creation.line.number == marked_line(text)


class Trainer:
    """Keeps a function of a module."""

    def __init__(self, train: object) -> None:
        self.train = train


@pytest.mark.parametrize("is_reachable", [True, False])
def test_find_creation_searches_only_modules_that_the_program_can_reach(
    is_reachable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import torch\ndef train(p):\n    val_optimizer = torch.optim.SGD(p, lr=0.25)\n    return val_optimizer\n"
    module = load_module(tmp_path / "another_program.py", text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert creation_in_frame(Trainer(module.train if is_reachable else None)) is is_reachable


def creation_in_frame(trainer: Trainer) -> bool:
    """Look for the call that creates an optimizer, with the variables of this function in reach."""
    parameters = [torch.zeros(1, requires_grad=True)]
    val_optimizer = getattr(torch.optim, "S" + "GD")(parameters, lr=0.25)
    return find_creation(val_optimizer, [], sys._getframe()) is not None and trainer is not None


def test_checkup_searches_the_module_that_creates_the_loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset, random_split\n"
        "def make_loaders():\n    series = torch.randn(420, generator=torch.Generator().manual_seed(0)).cumsum(0)\n"
        "    windows = TensorDataset(series[:-1].unfold(0, 20, 1), series[20:, None])\n"
        "    train, val = random_split(windows, [0.8, 0.2])  # here\n"
        "    train_loader, val_loader = DataLoader(train, 16, shuffle=True), DataLoader(val, 64)\n"
        "    return train_loader, val_loader\n"
    )
    module = load_module(tmp_path / "series_data.py", text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("nbdebug.source.creation._MAX_LOADED_FILES", sys.maxsize)  # the tests refer to each other
    train_loader, val_loader = module.make_loaders()
    debugger = Debugger(torch.nn.Linear(20, 1), train_loader, val_loader, loss_fn=torch.nn.MSELoss())
    (finding,) = debugger.checkup(select="D108")
    assert (finding.where.file, finding.where.line) == (str(module.__file__), marked_line(text))
