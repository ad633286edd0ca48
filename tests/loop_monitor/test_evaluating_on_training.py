"""Tests of E712: evaluations that use the training loader only."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from nbdebug.rules.examples import mlp, rings, training_setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import torch
from torch.nn import functional as F

def accuracy(model, batches):
    model.eval()
    right = rows = 0
    with torch.no_grad():
        for x, y in batches:
            right += (model(x).argmax(1) == y).sum().item()
            rows += len(y)
    model.train()
    return right / rows

def train(setup):
    for _ in range(3):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
        {evaluation}
"""
WRONG = "print(accuracy(setup.model, setup.train_loader))"


@pytest.mark.parametrize(
    "evaluation",
    [
        WRONG,
        "print(accuracy(setup.model, setup.val_loader))",
        "accuracy(setup.model, setup.train_loader); accuracy(setup.model, setup.val_loader)",
        "accuracy(setup.model, [next(iter(setup.train_loader))])",
        "pass",
    ],
    ids=["training", "validation", "both", "one batch", "none"],
)
def test_evaluating_on_training_in_loops_fires_where_the_loader_is_passed(tmp_path: Path, evaluation: str) -> None:
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), nn.CrossEntropyLoss(), lr=1e-2)
    findings = all_findings(load_loop(tmp_path / "loop.py", LOOP.format(evaluation=evaluation)), setup)
    places = [source_line(finding) for finding in findings if finding.code == "E712"]
    assert places == ([WRONG] if evaluation == WRONG else [])
