"""Tests of E707 on loops that restore saved weights at their end."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, train, training_setup, waves
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

KEEPER = """
import copy

import torch


class Keeper:
    def __init__(self):
        self.best, self.state = {start}, None

    def offer(self, value, model):
        {condition}
            self.best = value
            self.state = copy.deepcopy(model.state_dict())


def train(setup, train_epochs):
    keeper = Keeper()
    for _ in range(8):
        train_epochs(setup, 2)
        with torch.no_grad():
            loss = sum(setup.loss_fn(setup.model(x), y).item() for x, y in setup.val_loader)
        keeper.offer(loss, setup.model)
    setup.model.load_state_dict(keeper.state)
"""
FILE = """
import torch


def train(setup, train_epochs):
    worst = {start}
    for _ in range(8):
        train_epochs(setup, 2)
        losses = []
        with torch.no_grad():
            for x, y in setup.val_loader:
                losses.append(setup.loss_fn(setup.model(x), y))
        value = torch.stack(losses).mean()
        {condition}
            worst = value
            state = {{name: tensor.clone() for name, tensor in setup.model.state_dict().items()}}
    setup.model.load_state_dict(state)
"""


def classification() -> Setup:
    return training_setup(mlp(8, 32, 2), rings(), rings(128, seed=1), nn.CrossEntropyLoss(), lr=3e-2)


def regression() -> Setup:
    return training_setup(mlp(4, 32, 1), waves(), waves(128, seed=1), nn.MSELoss(), lr=4e-3)


SETUPS = classification, regression


def findings(file: Path, text: str, setup: Setup) -> list[Finding]:
    run: Any = load_loop(file, text)
    found = all_findings(lambda setup: run(setup, train), setup)
    return [finding for finding in found if finding.code == "E707" and finding.severity != "note"]


@pytest.mark.parametrize("make_setup", SETUPS)
@pytest.mark.parametrize(("text", "condition"), [(KEEPER, "if value > self.best:"), (FILE, "if worst < value:")])
def test_metric_misaligned_of_weights_with_highest_loss_is_warning_at_condition(
    text: str, condition: str, make_setup: Any, tmp_path: Path
) -> None:
    (finding,) = findings(tmp_path / "loop.py", text.format(start="0.0", condition=condition), make_setup())
    assert finding.evidence["loss"] > finding.evidence["lowest"]
    assert finding.evidence["step"] == finding.where.step == 24
    assert source_line(finding) == condition


@pytest.mark.parametrize("make_setup", SETUPS)
@pytest.mark.parametrize(("text", "condition"), [(KEEPER, "if value < self.best:"), (FILE, "if value < worst:")])
def test_metric_misaligned_ignores_weights_with_lowest_loss(
    text: str, condition: str, make_setup: Any, tmp_path: Path
) -> None:
    assert findings(tmp_path / "loop.py", text.format(start="1e9", condition=condition), make_setup()) == []


RESETS = """
import copy

import torch


def evaluate(setup):
    with torch.no_grad():
        return [setup.loss_fn(setup.model(x), y) for x, y in setup.val_loader]


def train(setup, train_epochs):
    evaluate(setup)
    state = copy.deepcopy(setup.model.state_dict())
    for fold in range(2):
        for _ in range(4):
            train_epochs(setup, 2)
            evaluate(setup)
            if {keeps_first}:
                {keep}
        setup.model.load_state_dict(state)
    {last}
"""


@pytest.mark.parametrize(
    ("keep", "last"),
    [("pass", "pass"), ("state = copy.deepcopy(setup.model.state_dict())", "train_epochs(setup, 2)")],
    ids=["initial weights", "trained again"],
)
def test_metric_misaligned_ignores_weights_restored_for_another_start(keep: str, last: str, tmp_path: Path) -> None:
    text = RESETS.format(keeps_first="fold == 0 and _ == 0", keep=keep, last=last)
    assert findings(tmp_path / "loop.py", text, classification()) == []


@pytest.mark.parametrize("puts_back", [False, True])
def test_loss_of_folds_that_restart_does_not_count_as_oscillating(puts_back: bool) -> None:
    setup = training_setup(mlp(4, 32, 1), waves(), waves(256, seed=1), nn.MSELoss(), lr=5e-3)
    initial = copy.deepcopy(setup.model.state_dict())
    debugger = Debugger.of(setup)
    with debugger.watch():
        for _ in range(6):
            own = copy.deepcopy(setup.model.state_dict())
            setup.model.load_state_dict(initial)
            if puts_back:
                setup.model.load_state_dict(own)
            train(setup, 2)
    reasons = [skipped.why for skipped in debugger.findings.not_checked if skipped.code == "T604"]
    assert any("other weights were loaded" in reason for reason in reasons) is not puts_back
    assert "T604" not in [finding.code for finding in debugger.findings]
