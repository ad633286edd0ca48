"""Tests of D105 on random numbers that take the place of the inputs in training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import torch
from torch.nn import functional as F


def noise_of(x):
    return torch.empty(x.shape).uniform_(-1, 1)


def train(setup):
    model, optimizer = setup.model, setup.optimizers[0]
    for _ in range(4):
        for x, y in setup.train_loader:
            optimizer.zero_grad()
            {step}
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in setup.val_loader:
                model({validation})
"""
LOSS = "; loss = F.cross_entropy(output, y)"
REPLACED = {
    "like the inputs": "output = model(torch.randn_like(x))" + LOSS,
    "of their shape": "z = torch.rand(x.shape); output = model(z * 2 - 1)" + LOSS,
    "of a helper": "output = model(noise_of(x))" + LOSS,
    "a normal distribution": "output = model(torch.normal(0.0, 1.0, size=x.shape))" + LOSS,
    "overwritten": "x = torch.randn(len(x), 8); output = model(x)" + LOSS,
}
KEPT = {
    "noise is added": {"step": "output = model(x + torch.randn_like(x))" + LOSS},
    "masked": {"step": "output = model(x * (torch.rand_like(x) > 0.2))" + LOSS},
    "another pass": {"step": "fake = model(torch.randn_like(x)); output = model(x) + 0 * fake" + LOSS},
    "no target": {"step": "loss = model(torch.randn_like(x)).square().mean()"},
    "noise in both": {
        "step": "output = model(torch.randn_like(x))" + LOSS,
        "validation": "torch.randn_like(x)",
    },
    "mixed": {"step": "w = torch.rand(len(x), 1); output = model(w * x + (1 - w) * x.flip(0))" + LOSS},
}


def findings(file: Path, step: str, validation: str = "x") -> list[Finding]:
    torch.manual_seed(0)
    setup = training_setup(mlp(8, 16, 2), rings(256), rings(128, seed=1), nn.CrossEntropyLoss())
    run = load_loop(file, LOOP.format(step=step, validation=validation))
    return [finding for finding in all_findings(run, setup) if finding.code == "D105"]


@pytest.mark.parametrize("name", REPLACED)
def test_random_numbers_in_place_of_the_inputs_are_reported_where_they_are_drawn(tmp_path: Path, name: str) -> None:
    (finding,) = findings(tmp_path / "loop.py", REPLACED[name])
    assert "the model receives random numbers" in finding.message
    assert any(call in source_line(finding) for call in ("rand", "torch.normal(", "uniform_"))


@pytest.mark.parametrize("name", KEPT)
def test_random_numbers_beside_the_inputs_are_quiet(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path / "loop.py", **KEPT[name]) == []
