"""When the rules are asked while a loop runs."""

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
asked = []
ask = rule_schedule.RuleSchedule.run_rule
rule_schedule.RuleSchedule.run_rule = lambda self, rule, step: (asked.append(rule.code), ask(self, rule, step))
with nbdebug.watch(model, optimizer) as watch:
    before = set(sys.modules)
    while len(set(asked)) < len(watch.rule_schedule.rules):
        watch.next_refresh = 0.0
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(sorted(name for name in set(sys.modules) - before if not name.startswith("torch")))
"""


def test_nothing_is_imported_while_the_loop_runs() -> None:
    said = subprocess.run([sys.executable, "-c", LOOP], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize(("seconds", "left_out"), [(3600.0, 0), (0.0, 1)])
def test_rules_are_asked_whether_steps_are_short_or_long(
    seconds: float, left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where numbers are due at every step, only the first one that brings them in asks no rule."""
    asked: list[int] = []
    monkeypatch.setattr(RuleSchedule, "advance", lambda self, step: asked.append(step))
    monkeypatch.setattr("nbdebug.watching.step_recorder.FETCH_SECONDS", seconds)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with nbdebug.watch(model, optimizer) as watch:
        for _ in range(8):
            watch.next_refresh = 0.0
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert len(asked) == 8 - left_out
