"""Tests of the place of M303 for a tensor that is computed from a new parameter elsewhere than it is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.rules.examples import minimal_setup, points
from tests.rules.rule_findings import rule_findings

MODEL = """\
import torch
from torch import nn
{before}
class Net(nn.Module):
    def __init__(self, level=0.5):
        super().__init__()
        self.head = nn.Linear(4, 3)
{body}
    def forward(self, x):
        return self.head(x + self.offset)
"""
CALL = "        self.offset = self.start(level)\n    def start(self, level):\n"
STORED = "        self.offset = {}  # here"
FAULTS = {
    "a method": ("", CALL + "        return nn.Parameter(torch.zeros(4)) + level  # here"),
    "a method with a variable": (
        "",
        CALL + "        offset = nn.Parameter(torch.zeros(4))\n        return offset * level + 1  # here",
    ),
    "a function": (
        "def start(level):\n    return torch.nn.Parameter(torch.zeros(1, 4)).view(4) - level  # here",
        "        self.offset = start(level)",
    ),
    "a method of two functions": (
        "def new():\n    return nn.Parameter(torch.zeros(4))",
        CALL + "        return new().double().float() * 0.1 + level  # here",
    ),
    "a variable of the constructor": (
        "",
        "        offset = nn.Parameter(torch.zeros(4)) + level  # here\n        self.offset = offset",
    ),
    "the assignment": ("", STORED.format("nn.Parameter(torch.zeros(4)) + level")),
    "the assignment, after a function": (
        "def start():\n    return nn.Parameter(torch.zeros(4))",
        STORED.format("start() + level"),
    ),
}
HEALTHY = {
    "a sum in a parameter": ("", CALL + "        return nn.Parameter(torch.zeros(4) + level)"),
    "a wrapped sum": (
        "def start(level):\n    return torch.zeros(4) + level",
        "        self.offset = nn.Parameter(start(level))",
    ),
    "a function": ("def start(level):\n    return nn.Parameter(torch.zeros(4))", "        self.offset = start(level)"),
    "a constant": ("", CALL + "        return torch.zeros(4) + level"),
    "a buffer of a detached parameter": (
        "def start(level):\n    return (nn.Parameter(torch.zeros(4)) + level).detach()",
        "        self.register_buffer('offset', start(level))",
    ),
}


def m303(before: str, body: str, folder: Path) -> list[Any]:
    file = folder / "program.py"
    file.write_text(MODEL.format(before=before, body=body), encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    setup = minimal_setup(scope["Net"](), *points(), nn.CrossEntropyLoss())
    setup.files = {str(file)}
    return rule_findings(setup, "M303")


@pytest.mark.parametrize("name", FAULTS)
def test_tensor_computed_from_a_parameter_is_reported_where_it_is_computed(name: str, tmp_path: Path) -> None:
    (finding,) = m303(*FAULTS[name], tmp_path)
    assert (finding.where.source or "").strip().endswith("# here"), str(finding)
    assert [line.role for line in finding.related] == ["self.offset stores the tensor"] * ("assignment" not in name)


@pytest.mark.parametrize("name", HEALTHY)
def test_parameter_or_constant_made_elsewhere_is_silent(name: str, tmp_path: Path) -> None:
    assert m303(*HEALTHY[name], tmp_path) == []
