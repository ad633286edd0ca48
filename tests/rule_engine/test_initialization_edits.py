"""Changes of the line that initializes weights, by what their module would have without it."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

import pytest

from nbdebug.finding import Edit
from nbdebug.rule_engine.initialization_edits import draw_initialization, undo_initialization
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.source.edits import apply_edits
from nbdebug.source.location import SourceLine

PROGRAM = """import numpy as np
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        MEMBERS
    def forward(self, x):
        return x @ self.weight.T
def loss_fn(output, target):
    return output.sum()
model = Model()
FILL
"""
OWN = "self.weight = nn.Parameter(torch.empty(3, 4))"
LAYER = "self.layer = nn.Linear(4, 3)"
CASES = {
    "layer of torch": (LAYER, "nn.init.constant_(model.layer.weight, 0.3)", "pass", "pass"),
    "own parameter": (OWN, "nn.init.constant_(model.weight, 0.3)", "", "nn.init.normal_(model.weight, std=0.1)"),
    "method of a tensor": (OWN, "model.weight.data.fill_(0.3)", "", "model.weight.data.normal_(std=0.1)"),
    "creation": (
        OWN,
        "model.weight = nn.Parameter(torch.zeros(3, 4))",
        "",
        "model.weight = nn.Parameter(0.1 * torch.randn(3, 4))",
    ),
    "creation by an array library": (
        OWN,
        "model.weight.data = torch.tensor(np.zeros((3, 4)).astype('float32'))",
        "",
        "",
    ),
    "name of a function": (OWN, "from torch.nn.init import ones_; ones_(model.weight)", "", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_initialization_is_removed_only_where_torch_initializes(name: str, tmp_path: Path) -> None:
    members, statement, undone, drawn = CASES[name]
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("MEMBERS", members).replace("FILL", "if True:\n    " + statement))
    linecache.checkcache(str(path))
    variables = run_path(str(path))
    setup = minimal_setup(variables["model"], *points(), variables["loss_fn"])
    line = SourceLine(str(path), PROGRAM.count("\n") + 1)

    def changed(edits: Sequence[Edit]) -> str:
        source = apply_edits(path.read_text(), edits).splitlines()
        return source[-1].strip() if edits else ""

    assert changed(undo_initialization(setup, line)) == undone
    assert changed(draw_initialization(setup, line, 0.1)) == drawn
