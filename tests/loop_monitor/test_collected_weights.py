"""Tests of R905 on loops that collect the weights of several epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line, train_plainly

AVERAGED = """
import copy

import torch


def train(setup, train_plainly):
    collected = []
    for _ in range(6):
        train_plainly(setup, 1)
        {collect}
    mean = {{name: torch.stack([state[name] for state in collected]).mean(0) for name in collected[0]}}
    setup.model.load_state_dict(mean)
"""
TRAINER = """
import torch


class Trainer:
    def __init__(self, setup):
        self.setup, self.last = setup, []

    def fit(self, train_plainly):
        for _ in range(6):
            train_plainly(self.setup, 1)
            {collect}
        with torch.no_grad():
            for i, p in enumerate(self.setup.model.parameters()):
                p.copy_(torch.stack([weights[i] for weights in self.last]).mean(0))


def train(setup, train_plainly):
    Trainer(setup).fit(train_plainly)
"""
ALIASES = (
    (AVERAGED, "collected.append(setup.model.state_dict())"),
    (AVERAGED, "collected.append({n: p.data for n, p in setup.model.named_parameters()})"),
    (TRAINER, "self.last.append([p.detach() for p in self.setup.model.parameters()])"),
)
COPIES = (
    (AVERAGED, "collected.append(copy.deepcopy(setup.model.state_dict()))"),
    (AVERAGED, "collected = [setup.model.state_dict()]"),
    (TRAINER, "self.last.append([p.detach().clone() for p in self.setup.model.parameters()])"),
)


def without_biases() -> Setup:
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 3, bias=False))
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def findings(file: Path, text: str, setup: Setup, argument: Any = train_plainly) -> list[Any]:
    train = load_loop(file, text)
    return [finding for finding in all_findings(lambda setup: train(setup, argument), setup) if finding.code == "R905"]


@pytest.mark.parametrize(("text", "collect"), ALIASES)
def test_aliased_state_of_collected_live_weights_is_error_at_its_line(text: str, collect: str, tmp_path: Path) -> None:
    for number, setup in enumerate((classifier(), without_biases())):
        (finding,) = findings(tmp_path / f"loop{number}.py", text.format(collect=collect), setup)
        assert finding.severity == "error"
        assert finding.evidence["sets"] >= 3
        assert source_line(finding) == collect


@pytest.mark.parametrize(("text", "collect"), COPIES)
def test_aliased_state_of_collected_copies_and_of_latest_state_finds_nothing(
    text: str, collect: str, tmp_path: Path
) -> None:
    found = findings(tmp_path / "loop.py", text.format(collect=collect), classifier())
    assert [finding for finding in found if "sets" in finding.evidence] == []


GRAPHS = """
def train(setup, losses):
    for x, y in [*setup.train_loader] * 6:
        setup.optimizers[0].zero_grad()
        losses.append(setup.loss_fn(setup.model(x), y))
        losses[-1].backward()
        setup.optimizers[0].step()
"""


def test_aliased_state_ignores_weights_that_retained_graphs_hold(tmp_path: Path) -> None:
    losses: list[Any] = []
    assert findings(tmp_path / "loop.py", GRAPHS, without_biases(), losses) == []
    assert len(losses) == 24
