"""Tests of R905 on loops that change the weights again after each step, by a slow average or on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import copy

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def train(setup):
    model, optimizer, loss_fn = setup.model, setup.optimizers[0], setup.loss_fn
    slow, steps, masks = copy.deepcopy(model), 0, [torch.rand_like(p) > 0.5 for p in model.parameters()]
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    for epoch in range(3):
        for x, y in setup.train_loader:
            start = [p.detach().clone() for p in model.parameters()]
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            {before_step}
            optimizer.step()
            steps += 1
            with torch.no_grad():
                for p, s, a, mask in zip(model.parameters(), slow.parameters(), start, masks):
                    {write}
                {after}
"""
SLOW: dict[str, dict[str, str]] = {
    "slow model": {"write": "s.lerp_(p, 0.001); p.copy_(s)"},
    "data of a slow model": {"write": "s.data.lerp_(p.data, 0.01); p.data.copy_(s.data)"},
    "by hand": {"write": "p.copy_(0.98 * a + 0.02 * p)"},
    "new data": {"write": "p.data = a + (p.data - a) / 50"},
    "averaged model": {"after": "ema.update_parameters(model); model.load_state_dict(ema.module.state_dict())"},
}
HEALTHY: dict[str, dict[str, str]] = {
    "none": {},
    "average apart": {"write": "s.lerp_(p, 0.001)"},
    "look ahead": {"write": "steps % 5 == 0 and p.copy_(s.lerp_(p, 0.5))"},
    "look ahead at each step": {"write": "p.copy_(s.lerp_(p, 0.5))"},
    "clipped": {"write": "p.clamp_(-0.01, 0.01)"},
    "masked": {"write": "p.mul_(mask)"},
    "set back": {"write": "steps < 30 and p.copy_(a)"},
    "normalized": {"write": "p.div_(p.norm() + 1e-6)"},
    "rounded": {"write": "p.copy_((p * 256).round() / 256)"},
    "perturbed": {
        "before_step": "[p.data.add_(p.grad, alpha=0.05) for p in model.parameters()]; optimizer.zero_grad(); "
        "loss_fn(model(x), y).backward(); [p.data.copy_(a) for p, a in zip(model.parameters(), start)]",
    },
}


def findings(file: Path, write: str = "pass", after: str = "pass", before_step: str = "pass") -> list[Finding]:
    run: Any = load_loop(file, LOOP.format(write=write, after=after, before_step=before_step))
    torch.manual_seed(0)
    setup = training_setup(mlp(8, 32, 2), rings(), rings(128, seed=1), nn.CrossEntropyLoss(), lr=3e-2)
    return [finding for finding in all_findings(run, setup) if finding.code == "R905"]


@pytest.mark.parametrize("name", SLOW)
def test_average_that_undoes_each_step_is_reported_at_the_line_that_writes_it(tmp_path: Path, name: str) -> None:
    (finding,) = findings(tmp_path / "loop.py", **SLOW[name])
    assert finding.severity == "warning"
    assert finding.evidence["remaining share"] < 0.05
    assert source_line(finding) == (SLOW[name].get("write") or SLOW[name]["after"])


@pytest.mark.parametrize("name", HEALTHY)
def test_weights_that_are_changed_after_each_step_on_purpose_are_quiet(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path / "loop.py", **HEALTHY[name]) == []
