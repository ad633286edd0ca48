"""Tests of when the rules run during a loop."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watching.rule_schedule import RuleSchedule

LOOP = """
import sys
import torch, nbdebug
from torch import nn
from nbdebug.watching import rule_schedule
rule_schedule._TIME_SHARE, rule_schedule._ROUND_SECONDS = 1.0, 0.0
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.arange(16) % 3
codes = []
run_rule = rule_schedule.RuleSchedule.run_rule
rule_schedule.RuleSchedule.run_rule = lambda self, rule, step: (codes.append(rule.code), run_rule(self, rule, step))
with nbdebug.watch(model, optimizer) as watch:
    before = set(sys.modules)
    while len(set(codes)) < len(watch.rule_schedule.rules):
        watch.next_refresh = 0.0
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(sorted(name for name in set(sys.modules) - before if not name.startswith("torch")))
"""


def test_rules_import_no_module_while_the_loop_runs() -> None:
    process = subprocess.run([sys.executable, "-c", LOOP], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize(("fetch_seconds", "skipped_steps"), [(3600.0, 0), (0.0, 1)])
def test_rule_schedule_advances_at_every_step_whatever_the_fetch_interval(
    fetch_seconds: float, skipped_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If numbers are fetched at every step, only the first step that fetches them runs no rule."""
    steps: list[int] = []
    monkeypatch.setattr(RuleSchedule, "advance", lambda self, step: steps.append(step))
    monkeypatch.setattr("nbdebug.watching.step_recorder.FETCH_SECONDS", fetch_seconds)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with nbdebug.watch(model, optimizer) as watch:
        for _ in range(8):
            watch.next_refresh = 0.0
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert len(steps) == 8 - skipped_steps
