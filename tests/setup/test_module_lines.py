"""Tests of the line that creates a part of the model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.setup.module_lines import module_line, part_line
from tests.source.source_modules import load_module

HEADER = "import torch\nfrom torch import nn\n"
CLASS = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
BLOCK = (
    "class Block(nn.Module):\n    def __init__(self, width, momentum):\n        super().__init__()\n"
    "        self.linear = nn.Linear(width, width)\n"
    "        self.norm = nn.BatchNorm1d(width, momentum=momentum)  # here\n"
)

# By name: the program, and the part of its model that the line with "here" creates; no such line if it is unknown.
PROGRAMS = {
    "attribute of a block": (
        BLOCK + CLASS + "        self.one, self.two = Block(4, 0.9), Block(4, 0.99)\nmodel = Net()\n",
        "two.norm",
    ),
    "one of two layers with equal options": (
        CLASS + "        self.first = nn.Linear(4, 4)\n        self.second = nn.Linear(4, 4)  # here\nmodel = Net()\n",
        "second",
    ),
    "told apart by the size of a kernel": (
        CLASS + "        self.body = nn.Sequential(\n            nn.Conv1d(4, 4, 9),\n            nn.ReLU(),\n"
        "            nn.Conv1d(4, 4, 5),  # here\n            nn.ReLU(),\n        )\nmodel = Net()\n",
        "body.2",
    ),
    "position in a model without a class": (
        "model = nn.Sequential(\n    nn.Linear(4, 4),\n    nn.ReLU(),\n"
        "    nn.Linear(4, 4),\n    nn.ReLU(),  # here\n)\n",
        "3",
    ),
    "helper that returns a container": (
        "def dense(width):\n    return nn.Sequential(nn.Linear(width, width), nn.ReLU())  # here\n"
        + CLASS
        + "        self.body = nn.Sequential(dense(4), dense(4))\n        self.act = nn.ReLU()\nmodel = Net()\n",
        "body.1.1",
    ),
    "comprehension in a list of modules": (
        CLASS + "        width = 4\n        self.gate = nn.Linear(width, 1)\n"
        "        self.heads = nn.ModuleList([nn.Linear(width, 1) for _ in range(3)])  # here\nmodel = Net()\n",
        "heads.2",
    ),
    "part of a module of torch": (
        CLASS + "        layer = nn.TransformerEncoderLayer(8, 2, 16)  # here\n"
        "        self.encoder = nn.TransformerEncoder(layer, 2)\nmodel = Net()\n",
        "encoder.layers.1.self_attn",
    ),
    "parameter of a class": (
        CLASS + "        self.scale = nn.Parameter(torch.ones(4))\n"
        "        self.shift = nn.Parameter(torch.ones(4))  # here\nmodel = Net()\n",
        "shift:",
    ),
    "layers of a list that is unpacked": (
        "layers = []\nfor _ in range(2):\n    layers += [nn.Linear(4, 4), nn.Tanh()]  # here\n"
        "model = nn.Sequential(*layers)\n",
        "2",
    ),
    "appended to a list, as the same class is elsewhere": (
        "def tower():\n    layers = []\n    for _ in range(2):\n        layers.append(nn.Linear(4, 4))\n"
        "        layers.append(nn.ReLU())  # here\n    return nn.Sequential(*layers)\n"
        + CLASS
        + "        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())\n        self.head = tower()\nmodel = Net()\n",
        "head.3",
    ),
    "variable that is appended to a list": (
        "layers = [nn.Linear(4, 4)]\nact = nn.ReLU()  # here\nlayers.append(act)\nother = nn.ReLU()\n"
        "model = nn.Sequential(*layers)\n",
        "1",
    ),
    "appended on two lines": (
        "def tower():\n    layers = [nn.Linear(4, 4)]\n    layers.append(nn.ReLU())\n    layers += [nn.ReLU()]\n"
        "    return nn.Sequential(*layers)  # here\n" + CLASS + "        self.head = tower()\nmodel = Net()\n",
        "head.2",
    ),
    "appended as another value may be": (
        "def tower(act):\n    layers = [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)]\n    layers.append(act)\n"
        "    return nn.Sequential(*layers)  # here\n"
        + CLASS
        + "        self.body = nn.ReLU()\n        self.head = tower(self.body)\nmodel = Net()\n",
        "head.3",
    ),
    "class that is passed to a function": (
        "def tower(kind):\n    layers = [nn.Linear(4, 4), kind()]\n    for _ in range(2):\n"
        "        layers += [nn.Linear(4, 4), kind()]\n    return nn.Sequential(*layers)\n"
        "if True:\n    kind = nn.Sigmoid  # here\nelse:\n    kind = nn.ReLU\nmodel = tower(kind)\n",
        "3",
    ),
    "class that is the default of a parameter": (
        "def tower(depth, nonlinearity=nn.ELU):\n    body = [nn.Linear(4, 4)]\n    for _ in range(depth):\n"
        "        body.append(nn.Linear(4, 4))\n        body.append(nonlinearity())  # here\n"
        "    return nn.Sequential(*body)\nmodel = tower(2)\n",
        "4",
    ),
    "class that a call passes by position": (
        "def tower(width, kind):\n    body = []\n    for _ in range(2):\n        body += [nn.Linear(width, width)]\n"
        "        body += [kind(inplace=True)]  # here\n    return nn.Sequential(*body)\n"
        "def other(width, kind):\n    return kind(width)\nmodel = tower(4, nn.ReLU)\n",
        "3",
    ),
    "class that the constructor of a class keeps": (
        "class Net(nn.Module):\n    def __init__(self, *, kind=nn.SiLU):\n        super().__init__()\n"
        "        self.kind = kind\n        self.body = nn.Sequential(*self.parts())\n"
        "    def parts(self):\n        for width in (4, 4):\n            yield nn.Linear(width, 4)\n"
        "            yield self.kind()  # here\nmodel = Net()\n",
        "body.3",
    ),
    "class of which a function makes two": (
        "def tower(kind=nn.GELU):\n    body = [nn.Linear(4, 4), kind()]\n    body += [nn.Linear(4, 4)]\n"
        "    body.append(kind())\n    return nn.Sequential(*body)\nmodel = tower()\n",
        "3",
    ),
    "parameter with one value": (
        "model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))\n"
        "nn.init.zeros_(model[2].bias)\nnn.init.constant_(model[0].bias, -(3 ** 0.5))  # here\n",
        "0.bias:",
    ),
    "assigned in two branches": (
        CLASS + "        if True:\n            self.out = nn.Linear(4, 4)\n        else:\n"
        "            self.out = nn.Linear(4, 4)\nmodel = Net()\n",
        "out",
    ),
    "the model itself": (CLASS + "        self.out = nn.Linear(4, 4)\nmodel = Net()\n", ""),
}


def build_setup(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Setup:
    module = load_module(tmp_path / "program_of_modules.py", HEADER + text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    setup = minimal_setup(module.model, torch.zeros(8, 4), torch.zeros(8).long(), nn.CrossEntropyLoss())
    setup.files = {str(module.__file__)}
    return setup


@pytest.mark.parametrize("name", PROGRAMS)
def test_part_line_returns_the_line_that_creates_a_part_of_the_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, part = PROGRAMS[name]
    setup = build_setup(tmp_path, text, monkeypatch)
    parameter = part.removesuffix(":") if part.endswith(":") else None
    line = part_line(setup, None if parameter else part, parameter)
    texts = [source for source in text.splitlines() if source.endswith("# here")]
    assert [line.text] == texts if line else not texts


def test_line_of_a_module_of_a_model_that_several_lines_may_create_is_unknown() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 3)))
    other = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 3)))
    setup = minimal_setup(model, torch.randn(8, 4), torch.zeros(8).long(), nn.CrossEntropyLoss())
    assert type(other) is type(model)
    assert all(module_line(setup, path) is None for path, _ in model.named_modules())
