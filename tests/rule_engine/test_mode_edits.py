"""Fixes of T613 put the model back in train mode where an evaluation within an epoch leaves it in eval mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.source.edits import apply_edits
from tests.loop_monitor.watched_loops import ModeDependentNetwork, all_findings, load_loop

TRAINER = """\
import torch
from torch.nn import functional as F


class Trainer:
    def __init__(self, setup):
        self.net, self.data, self.optimizer = setup.model, setup.train_loader, setup.optimizers[0]

    def check(self):
        self.net.eval()
        with torch.no_grad():
            loss = [self.loss(x, y).item() for x, y in self.data]
        {end}

    def loss(self, x, y):
        return F.cross_entropy(self.net(x), y)


def train(setup):
    trainer = Trainer(setup)
    trainer.net.train()
    for epoch in range(3):
        for number, (x, y) in enumerate(trainer.data):
            trainer.optimizer.zero_grad()
            trainer.loss(x, y).backward()
            trainer.optimizer.step()
            if number == 2:
                trainer.check()
"""
IN_LOOP = """\
import torch
from torch.nn import functional as F


def train(setup):
    net, data, optimizer = setup.model, setup.train_loader, setup.optimizers[0]
    net.train()
    for epoch in range(3):
        for number, (x, y) in enumerate(data):
            if number % 3 == 2:
                net.eval()
                with torch.no_grad():
                    score = F.cross_entropy(net(x), y).item()
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
"""
PROGRAMS = {
    "function that ends": (TRAINER.format(end="self.last = sum(loss)"), "self.net.train()"),
    "function that returns": (TRAINER.format(end="return loss"), "self.net.train()"),
    "branch of the loop": (IN_LOOP, "net.train()"),
}


def findings_of(source: str, file: Path) -> list[Finding]:
    setup = minimal_setup(ModeDependentNetwork(), *points(), nn.CrossEntropyLoss())
    return [finding for finding in all_findings(load_loop(file, source), setup) if finding.code == "T613"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_evaluation_within_an_epoch_ends_in_train_mode(name: str, tmp_path: Path) -> None:
    source, code = PROGRAMS[name]
    (finding,) = findings_of(source, tmp_path / "loop.py")
    assert [edit.text.strip() for edit in finding.edits] == [code]
    assert findings_of(apply_edits(source, finding.edits), tmp_path / "fixed.py") == []


def test_evaluation_with_several_ends_has_a_sentence(tmp_path: Path) -> None:
    end = "if sum(loss) < 1:\n            return loss\n        return [loss]"
    (finding,) = findings_of(TRAINER.format(end=end), tmp_path / "loop.py")
    assert finding.edits == ()
    assert finding.fix == "Call train() of the model again after this evaluation."
