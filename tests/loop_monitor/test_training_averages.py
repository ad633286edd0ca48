"""Tests of E708 for training losses of an epoch with a wrong divisor, recognized by their values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

FUNCTION = """
def one_epoch(setup, state):
    total, count, losses = {start}, 0, []
    for x, y in setup.train_loader:
        setup.optimizers[0].zero_grad()
        loss = setup.loss_fn(setup.model(x), y)
        loss.backward()
        setup.optimizers[0].step()
        {add}
        count += 1
        losses.append(loss.item())
    state["total"] = total
    return {quotient}


def train(setup):
    state, history = {{"total": 0.0}}, []
    for epoch in range(5):
        history.append(one_epoch(setup, state))
"""
TRAINER = """
class Trainer:
    def __init__(self, setup):
        self.setup, self.log, self.total = setup, {{}}, 0.0

    def fit(self):
        state = {{"total": 0.0}}
        for epoch in range(5):
            total, losses, count = {start}, [], 0
            for x, y in self.setup.train_loader:
                prediction = self.setup.model(x)
                loss = self.setup.loss_fn(prediction, y)
                self.setup.optimizers[0].zero_grad()
                loss.backward()
                self.setup.optimizers[0].step()
                losses.append(loss.detach())
                count += 1
                {add}
            setup, state["total"] = self.setup, total
            self.log["train"] = {quotient}


def train(setup):
    Trainer(setup).fit()
"""
ADD, WEIGHTED = "total += loss.item()", "total += loss.item() * len(y)"
RESET, CONTINUED = "0.0", 'state["total"]'
WRONG = {
    "rows": (RESET, ADD, "total / len(setup.train_loader.dataset)"),
    "batches": (RESET, WEIGHTED, "total / len(setup.train_loader)"),
    "validation batches": (RESET, ADD, "total / len(setup.val_loader)"),
    "batches of one epoch": (CONTINUED, ADD, "total / count"),
}
RIGHT = {
    "mean over batches": (RESET, ADD, "total / count"),
    "mean over rows": (RESET, WEIGHTED, "total / len(setup.train_loader.dataset)"),
    "sum": (RESET, ADD, "total"),
    "mean of a list": (RESET, "pass", "sum(losses) / len(losses)"),
    "running mean": (RESET, "total += (loss.item() - total) / (count + 1)", "total"),
}


def classification() -> Setup:
    x, y = points()
    validation = DataLoader(TensorDataset(x[:40], y[:40]), batch_size=16)
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss(), val_loader=validation)


def regression() -> Setup:
    x, _ = points(2)
    targets = x[:, :1] + 0.3 * torch.randn(len(x), 1)
    validation = DataLoader(TensorDataset(x[:30], targets[:30]), batch_size=16)
    return minimal_setup(network(1), x[:60], targets[:60], nn.MSELoss(), val_loader=validation)


def e708_findings(text: str, parts: tuple[str, str, str], setup: Setup, folder: Path) -> list[Finding]:
    start, add, quotient = parts
    train = load_loop(folder / "loop.py", text.format(start=start, add=add, quotient=quotient))
    return [finding for finding in all_findings(train, setup) if finding.code == "E708"]


@pytest.mark.parametrize("make_setup", [classification, regression])
@pytest.mark.parametrize("text", [FUNCTION, TRAINER], ids=["function", "trainer"])
@pytest.mark.parametrize("divisor", WRONG)
def test_metric_averaging_of_training_losses_with_wrong_divisor_is_warning(
    divisor: str, text: str, make_setup: type[Setup], tmp_path: Path
) -> None:
    (finding,) = e708_findings(text, WRONG[divisor], make_setup(), tmp_path)
    evidence = finding.evidence
    assert (finding.severity, evidence["divisor"]) == ("warning", divisor)
    assert f"divided by the number of {divisor}, {evidence['count']}: {evidence['value']:.4g}" in finding.message
    assert source_line(finding)


@pytest.mark.parametrize("make_setup", [classification, regression])
@pytest.mark.parametrize("text", [FUNCTION, TRAINER], ids=["function", "trainer"])
@pytest.mark.parametrize("writing", RIGHT)
def test_metric_averaging_of_mean_training_losses_is_quiet(
    writing: str, text: str, make_setup: type[Setup], tmp_path: Path
) -> None:
    assert e708_findings(text, RIGHT[writing], make_setup(), tmp_path) == []
