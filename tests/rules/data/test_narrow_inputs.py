"""Tests of the line that D104 names for inputs without spread: a transform, or the computation of a dataset."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import load_module

_HEADER = """\
import numpy as np
import torch
from torch.utils.data import Dataset

class Scale:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, x):
        return (x - self.mean) / self.std  # computed

class Unit:
    def __call__(self, x):
        return torch.as_tensor(x).float() / 255

class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x

class Images(Dataset):
    def __init__(self, transform):
        self.images = np.random.default_rng(0).integers(0, 256, (64, 3, 6, 6)).astype(np.uint8)
        self.transform = transform

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return self.transform(self.images[i]), i % 3
"""
PROGRAMS: dict[str, str] = {
    "object with numbers": "data = Images(Compose(Unit(), Scale(mean=127.5, std=127.5)))  # here",
    "one of two calls": "wide = Scale(0.5, 0.25)\ndata = Images(Compose(Unit(), Scale(127.5, 127.5)))  # here",
    "variable": "scale = Scale(127.5, 127.5)  # here\ndata = Images(Compose(Unit(), scale))",
    "function": "def scale(x):\n    x = Unit()(x)\n    return (x - 127.5) / 127.5  # here\ndata = Images(scale)",
    "function in a list": "def scale(x):\n    return (x - 127.5) / 127.5  # here\n"
    "data = Images(Compose(Unit(), scale))",
    "lambda": "data = Images(Compose(Unit(), lambda x: (x - 127.5) / 127.5))  # here",
    "line of a read": "class Read(Images):\n    def __getitem__(self, i):\n"
    "        x = torch.as_tensor(self.images[i]) / 255\n"
    "        x = (x - 127.5) / 127.5  # here\n        return x, i % 3\ndata = Read(None)",
}
HEALTHY: dict[str, str] = {
    "matching numbers": "data = Images(Compose(Unit(), Scale(0.5, 0.25)))",
    "bytes": "data = Images(Compose(lambda x: torch.as_tensor(x).float(), Scale(127.5, 127.5)))",
    "unit range": "data = Images(Unit())",
    "centered": "data = Images(Compose(Unit(), lambda x: x - 0.5))",
    "per image": "data = Images(Compose(Unit(), lambda x: (x - x.mean()) / x.std()))",
}


def findings_of(text: str, tmp_path: Path) -> list[tuple[str, int]]:
    """Return the named source line and the number of related lines of each warning of D104."""
    file = tmp_path / "images.py"
    program = load_module(file, f"{_HEADER}{text}\n")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    setup = Setup(model, DataLoader(program.data, 16), loss_fn=nn.CrossEntropyLoss())
    setup.files.add(str(file))
    findings = rule_findings(setup, "D104")
    return [(str(finding.where.source), len(finding.related)) for finding in findings if finding.severity != "note"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_line_that_takes_the_spread_is_named(name: str, tmp_path: Path) -> None:
    ((source, _),) = findings_of(PROGRAMS[name], tmp_path)
    assert "# here" in source


@pytest.mark.parametrize("name", HEALTHY)
def test_inputs_with_spread_are_quiet(name: str, tmp_path: Path) -> None:
    assert findings_of(HEALTHY[name], tmp_path) == []
