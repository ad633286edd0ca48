"""Tests of the line at which low-rank adapters were frozen after they were put into a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.rules.examples import minimal_setup, points
from tests.rules.rule_findings import rule_findings

ADAPTER = """\
import torch
from torch import nn
class LowRank(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.down, self.up = nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False)
        nn.init.zeros_(self.up.weight)
    def forward(self, x):
        return self.base(x) + self.up(self.down(x))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body, self.fc = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 3)
    def forward(self, x):
        return self.fc(self.body(self.stem(x).relu()).relu())
{freeze}
model = build()
"""
BUILDS = {
    "one call": (
        "def build():\n    model = Model()\n    model.body = LowRank(model.body)\n"
        "    model.requires_grad_(False)  # here\n    model.fc.weight.requires_grad_(True)\n    return model"
    ),
    "a loop over parameters": (
        "def build():\n    model = Model()\n    model.body = LowRank(model.body)\n"
        "    for name, weight in model.named_parameters():\n        weight.requires_grad = False  # here\n"
        "    model.fc.requires_grad_(True)\n    return model"
    ),
    "a method": (
        "class Tuned(Model):\n    def freeze(self):\n        self.stem.requires_grad_(False)\n"
        "        self.body.requires_grad_(False)  # here\n"
        "def build():\n    model = Tuned()\n    model.body = LowRank(model.body)\n    model.freeze()\n    return model"
    ),
}


@pytest.mark.parametrize("name", BUILDS)
def test_frozen_adapters_are_reported_at_the_statement_that_froze_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(ADAPTER.format(freeze=BUILDS[name]), encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    setup = minimal_setup(scope["model"], *points(), nn.CrossEntropyLoss())
    setup.files = {str(file)}
    (finding,) = rule_findings(setup, "M302")
    assert "Low-rank adapters are frozen" in finding.message
    assert (finding.where.source or "").strip().endswith("# here"), str(finding)
