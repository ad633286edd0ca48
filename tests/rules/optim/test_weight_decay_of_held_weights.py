"""Tests of O509 on weights whose gradient is set to zero, and which the decay shrinks nevertheless."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import torch

def train(setup):
    first, last = setup.model[0], setup.model[-1]
    for epoch in range(4):
        for step, (x, y) in enumerate(setup.train_loader):
            loss = setup.loss_fn(setup.model(x), y)
            setup.optimizers[0].zero_grad()
            loss.backward()
            {after_backward}
            setup.optimizers[0].step()
"""


def decayed_setup(decay: float) -> Setup:
    model = network(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=decay)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def held_findings(tmp_path: Path, after_backward: str, decay: float) -> list[str]:
    train = load_loop(tmp_path / "loop.py", LOOP.format(after_backward=after_backward))
    findings = [f for f in all_findings(train, decayed_setup(decay)) if f.code == "O509"]
    return [source_line(finding) for finding in findings]


@pytest.mark.parametrize(
    "after_backward", ["for p in first.parameters(): p.grad.zero_()", "for p in first.parameters(): p.grad *= 0"]
)
def test_weights_that_only_the_decay_changes_are_reported_at_the_line(tmp_path: Path, after_backward: str) -> None:
    (line,) = held_findings(tmp_path, after_backward, 0.1)
    assert after_backward in line


@pytest.mark.parametrize(
    ("after_backward", "decay"),
    [
        ("pass", 0.1),
        ("for p in first.parameters(): p.grad.zero_()", 0.0),
        ("for p in first.parameters(): p.grad = None", 0.1),
        ("if step < 3: [p.grad.zero_() for p in first.parameters()]", 0.1),
    ],
)
def test_weights_that_are_trained_or_not_decayed_are_not_reported(
    tmp_path: Path, after_backward: str, decay: float
) -> None:
    assert held_findings(tmp_path, after_backward, decay) == []


@pytest.mark.parametrize("decayed_part", [0, 2])
def test_weights_of_the_first_of_two_optimizers_are_judged_by_their_own_steps(
    tmp_path: Path, decayed_part: int
) -> None:
    model = network(3)
    optimizers = tuple(
        torch.optim.AdamW(model[part].parameters(), lr=1e-3, weight_decay=0.1 if part == decayed_part else 0.0)
        for part in (0, 2)
    )
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)
    zeroing = "for p in first.parameters(): p.grad.zero_()"
    source = LOOP.format(after_backward=zeroing).replace(
        "setup.optimizers[0].step()", "[optimizer.step() for optimizer in setup.optimizers]"
    )
    source = source.replace("setup.optimizers[0].zero_grad()", "setup.model.zero_grad()")
    findings = [f for f in all_findings(load_loop(tmp_path / "loop.py", source), setup) if f.code == "O509"]
    assert len(findings) == (decayed_part == 0)
    assert all(finding.evidence["parameters"] == ["0.weight", "0.bias"] for finding in findings)
