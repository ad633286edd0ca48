"""Tests of the search for the line that sets an option of an optimizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdebug.source.search import find_option_line
from tests.source.source_modules import load_module

HEADER = """\
from functools import partial
import torch
from torch import nn
def scale(x, lr=1.0): return x
def build():
    model = nn.Linear(2, 2)
"""

PROGRAMS = {
    "keyword": ("optimizer = torch.optim.SGD(model.parameters(), lr=3.0)", 7),
    "position": ("optimizer = torch.optim.SGD(model.parameters(), 3.0)", 7),
    "on a line of its own": ("optimizer = torch.optim.SGD(\n        model.parameters(),\n        lr=3.0,\n    )", 9),
    "variable": ("rate = 3.0\n    optimizer = torch.optim.SGD(model.parameters(), rate)", 8),
    "beside a dictionary with that key": (
        'history = {"lr": []}\n    optimizer = torch.optim.SGD(model.parameters(), lr=3.0)',
        8,
    ),
    "from a configuration": (
        'config = {"lr": 3.0}\n    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])',
        8,
    ),
    "partial application": (
        "create = partial(torch.optim.SGD, lr=3.0)\n    optimizer = create(model.parameters())",
        7,
    ),
    "parameter group": (
        'groups = [{"params": [*model.parameters()],\n        "lr": 3.0}]\n    optimizer = torch.optim.SGD(groups)',
        7,
    ),
    "beside another class with that option": (
        "other = torch.optim.Adam(model.parameters(), lr=3.0)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), 3.0)",
        8,
    ),
    "another function's keyword": ("scale(1, lr=0.5)\n    optimizer = torch.optim.SGD(model.parameters())", None),
    "two optimizers with that value": (
        "first = torch.optim.SGD(model.parameters(), 3.0)\n    optimizer = torch.optim.SGD(model.parameters(), lr=3.0)",
        None,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_find_option_line_names_the_line_that_sets_the_learning_rate(name: str, tmp_path: Path) -> None:
    body, number = PROGRAMS[name]
    module = load_module(tmp_path / "program.py", f"{HEADER}    {body}\n    return optimizer\n")
    line = find_option_line("lr", 3.0, [module.build()], [module.build])
    assert (line.number if line else None) == number
