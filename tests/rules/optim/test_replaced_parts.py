"""Tests of O503 for a part of the model that was replaced after the optimizer was created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_findings

HEADER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(64, 4)
loader = DataLoader(TensorDataset(x, x.argmax(1)), 16)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
net.head = nn.Linear(2, 2)
"""
# The code between the model and the setup, the line at fault, the line that moves, and whether it may move.
PROGRAMS = {
    "head": (
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)  # here\nnet.head = nn.Linear(2, 4)\n",
        "(2, 2), (2,)",
    ),
    "item": ("optimizer = torch.optim.SGD(net.parameters(), 0.1)  # here\nnet[2] = nn.Linear(8, 2, False)\n", "(2, 8)"),
    "function": (
        "def fit_head(net):\n    head = nn.Linear(2, 4)\n    net.head = head\n"
        "    return torch.optim.SGD(net.head.parameters(), 0.1)\n"
        "def make(net):\n    optimizer = torch.optim.SGD(net.parameters(), 0.1)  # here\n    head = nn.Linear(2, 4)\n"
        "    net.head = head\n    return optimizer\noptimizer = make(net)\n",
        "(2, 2), (2,)",
    ),
}
MOVED = {"head": ["net.head = nn.Linear(2, 4)"], "item": ["net[2] = nn.Linear(8, 2, False)"], "function": []}
OTHERS = {
    "a new head that the optimizer gets": "net.head = nn.Linear(2, 4)\n"
    "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n",
    "the old head is kept": "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
    "old, net.head = net.head, nn.Linear(2, 4)\n",
    "a scale beside the body": "scale = nn.Parameter(torch.ones(1))\n"
    "optimizer = torch.optim.SGD([*net[0].parameters(), *net[2].parameters(), scale], 0.1)\n",
}


def run_program(program: str, folder: Path) -> tuple[Setup, dict[str, Any]]:
    text, file = HEADER + program, folder / "program.py"
    file.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(file), "exec"), scope)
    nn = scope["nn"]
    loss = nn.CrossEntropyLoss()
    setup = Setup(scope["net"], scope["loader"], loss_fn=loss, optimizers=(scope["optimizer"],))
    setup.files = {str(file)}
    return setup, scope


@pytest.mark.parametrize("name", PROGRAMS)
def test_replaced_part_is_named_with_the_tensors_that_the_optimizer_still_holds(name: str, tmp_path: Path) -> None:
    program, shapes = PROGRAMS[name]
    setup, _ = run_program(program, tmp_path)
    (finding,) = rule_findings(setup, "O503")
    assert source_line(finding).endswith("# here"), str(finding)
    assert f"in no module any more, with shapes {shapes}" in finding.message
    assert "was replaced after the optimizer was created" in finding.cause
    assert [line for change in finding.changes for line in change.added] == MOVED[name]
    assert "after line" in finding.fix


@pytest.mark.parametrize("name", OTHERS)
def test_other_tensors_of_an_optimizer_are_no_replaced_part(name: str, tmp_path: Path) -> None:
    setup, _objects = run_program(OTHERS[name], tmp_path)
    findings = rule_findings(setup, "O503")
    assert not any("no module any more" in finding.message for finding in findings)
