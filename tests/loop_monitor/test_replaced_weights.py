"""Tests of R905 on loops that evaluate an average of the weights, and put the trained ones back or do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import copy

import torch


def copy_average(average, model):
    with torch.no_grad():
        for weight, mean in zip(model.parameters(), average):
            {write}


def evaluate(setup, average, saved):
    {change}
    with torch.no_grad():
        losses = [setup.loss_fn(setup.model(x), y).item() for x, y in setup.val_loader]
    {restore}
    return sum(losses)


def train(setup):
    average, saved, steps = [weight.detach().clone() for weight in setup.model.parameters()], {{}}, 0
    for epoch in range(6):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
            steps += 1
            with torch.no_grad():
                for mean, weight in zip(average, setup.model.parameters()):
                    mean.lerp_(weight, 0.1)
            {after_step}
        evaluate(setup, average, saved)
"""
COPY, STATE = "weight.copy_(mean)", "setup.model.load_state_dict(dict(zip(setup.model.state_dict(), average)))"
AVERAGE = "copy_average(average, setup.model)"
KEEP = "saved.update(copy.deepcopy(setup.model.state_dict())); "


def findings(
    file: Path, write: str = COPY, change: str = AVERAGE, restore: str = "pass", after_step: str = "pass"
) -> list[Finding]:
    run: Any = load_loop(file, LOOP.format(write=write, change=change, restore=restore, after_step=after_step))
    setup = training_setup(mlp(8, 32, 2), rings(), rings(128, seed=1), nn.CrossEntropyLoss(), lr=3e-2)
    return [finding for finding in all_findings(run, setup) if finding.code == "R905"]


@pytest.mark.parametrize(
    ("write", "change"),
    [
        (COPY, AVERAGE),
        ("weight.data.copy_(mean)", AVERAGE),
        ("weight.data = mean.clone()", AVERAGE),
        (COPY, STATE),
    ],
)
def test_average_that_stays_in_the_model_is_reported_at_the_line_that_puts_it_there(
    tmp_path: Path, write: str, change: str
) -> None:
    (finding,) = findings(tmp_path / "loop.py", write, change)
    assert finding.severity == "warning"
    assert source_line(finding) == change
    assert finding.evidence["evaluations"] >= 2
    assert finding.evidence["step"] == 12


@pytest.mark.parametrize(
    "parts",
    [
        {"change": KEEP + AVERAGE, "restore": "setup.model.load_state_dict(saved)"},
        {"change": "pass"},
        {"change": "pass", "restore": AVERAGE},  # evaluates what it trained, as in averaging between clients
        {"write": "weight.mul_(weight.abs() > 0.05)"},
        {"write": "weight.mul_(0.9)"},
        {"change": "setup.model.load_state_dict(saved) if saved else " + KEEP.rstrip("; ")},
        {"after_step": "steps % 2 == 0 and copy_average(average, setup.model)"},
    ],
    ids=["put back", "no average", "after the evaluation", "pruned", "decayed", "restored", "every other step"],
)
def test_weights_that_are_put_back_or_changed_on_purpose_are_quiet(tmp_path: Path, parts: dict[str, str]) -> None:
    assert findings(tmp_path / "loop.py", **parts) == []
