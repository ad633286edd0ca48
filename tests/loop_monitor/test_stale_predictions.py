"""Tests of E710 for validation batches that are compared with predictions or targets of a training batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

SCRIPT = """
import torch

def train(setup):
    for epoch in range(3):
        setup.model.train()
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            scores = setup.model(x)
            setup.loss_fn(scores, y).backward()
            setup.optimizers[0].step()
        setup.model.eval()
        correct = 0
        with torch.no_grad():
            for x, y in setup.val_loader:
                output = setup.model(x)
                correct += ({scores}.argmax(1) == y).sum().item()  # here
"""
CLOSURE = """
import torch

def score(predict, loader):
    with torch.no_grad():
        return torch.cat([predict(x).eq(y) for x, y in loader]).float().mean()  # here

def train(setup):
    for epoch in range(3):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            output = setup.model(x)
            setup.loss_fn(output, y).backward()
            setup.optimizers[0].step()
        score(lambda x: {scores}.max(1).indices, setup.val_loader)
"""
TRAINER = """
import torch

class Trainer:
    def __init__(self, setup):
        self.setup = setup

    def fit(self):
        for epoch in range(3):
            for x, y in self.setup.train_loader:
                self.setup.optimizers[0].zero_grad()
                self.scores = self.setup.model(x)
                self.setup.loss_fn(self.scores, y).backward()
                self.setup.optimizers[0].step()
            self.validate()

    @torch.no_grad()
    def validate(self):
        self.wrong = 0
        for x, y in self.setup.val_loader:
            scores = self.setup.model(x)
            classes = {scores}.softmax(-1).argmax(-1)
            self.wrong += int((y != classes).sum())  # here

def train(setup):
    Trainer(setup).fit()
"""
BINARY = """
import torch

def train(setup):
    for epoch in range(3):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            logit = setup.model(x).squeeze(1)
            setup.loss_fn(logit, y).backward()
            setup.optimizers[0].step()
        for x, y in setup.val_loader:
            with torch.no_grad():
                fresh = setup.model(x).squeeze(1)
            hits = (({scores} > 0).float() == y).float().mean()  # here
"""
HEADS = SCRIPT.replace("loss_fn(scores, y)", "loss_fn(scores['sum'], y)")
STALE = {SCRIPT: "scores", CLOSURE: "output", TRAINER: "self.scores", BINARY: "logit", HEADS: "scores['sum']"}
FRESH = {SCRIPT: "output", CLOSURE: "setup.model(x)", TRAINER: "scores", BINARY: "fresh", HEADS: "output['sum']"}
IDS = ["script", "closure", "trainer", "one logit", "heads"]


class Heads(nn.Module):
    """Returns its scores in a dictionary, after others."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.body, self.other = network(outputs), network(2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"other": self.other(x), "sum": self.body(x)}


def make_setup(binary: bool, heads: bool) -> Setup:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(320, 4, generator=generator)
    y = (x[:, 0] + x[:, 1] > 0) + (0 if binary else (x[:, 2] > 0).long())
    y = y.float() if binary else y
    model = Heads(3) if heads else network(1 if binary else 3)
    loaders = [DataLoader(TensorDataset(x[part], y[part]), 20) for part in (slice(200), slice(200, None))]
    return Setup(
        model,
        *loaders,
        loss_fn=nn.BCEWithLogitsLoss() if binary else nn.CrossEntropyLoss(),
        optimizers=(torch.optim.Adam(model.parameters(), 1e-2),),
    )


def e710_findings(folder: Path, loop: str, scores: str) -> list[Finding]:
    train = load_loop(folder / "loop.py", loop.replace("{scores}", scores))
    return [
        finding for finding in all_findings(train, make_setup(loop is BINARY, loop is HEADS)) if finding.code == "E710"
    ]


@pytest.mark.parametrize("loop", STALE, ids=IDS)
def test_degenerate_metric_of_training_predictions_on_validation_fires_at_the_comparison(
    tmp_path: Path, loop: str
) -> None:
    (finding,) = e710_findings(tmp_path, loop, STALE[loop])
    assert "training" in finding.message
    assert "# here" in source_line(finding)


@pytest.mark.parametrize("loop", FRESH, ids=IDS)
def test_degenerate_metric_of_validation_predictions_is_quiet(tmp_path: Path, loop: str) -> None:
    assert e710_findings(tmp_path, loop, FRESH[loop]) == []


@pytest.mark.parametrize("loop", [SCRIPT, BINARY, HEADS], ids=["script", "one logit", "heads"])
@pytest.mark.parametrize("targets", ["y", "z"], ids=["of training", "of the batch"])
def test_degenerate_metric_of_training_targets_on_validation_fires_at_the_comparison(
    tmp_path: Path, loop: str, targets: str
) -> None:
    loops = loop.replace("{scores}", FRESH[loop]).replace("for x, y in setup.val", "for x, z in setup.val")
    train = load_loop(tmp_path / "loop.py", loops.replace("== y", f"== {targets}"))
    findings = all_findings(train, make_setup(loop is BINARY, loop is HEADS))
    errors = [finding for finding in findings if finding.code == "E710"]
    assert len(errors) == (targets == "y")
    for finding in errors:
        assert "the targets of the last training batch" in finding.message
        assert "# here" in source_line(finding)
