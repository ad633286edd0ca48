"""Tests of E710 for predictions that stay constant whatever the model returns, recognized by their values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

TRAIN = """
import torch
from torch.nn import functional as F

def train(setup):
    for epoch in range(4):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
        with torch.no_grad():
            evaluate(setup.model, setup.val_loader)
"""
HELPER = """
def decide(scores):
    {decision}
    return answer

def evaluate(net, loader):
    return sum(int((decide(net(x)) == y.flatten()).sum()) for x, y in loader)
"""
METRIC_CLASS = """
class Accuracy:
    def __init__(self):
        self.right = 0

    def labels(self, scores):
        {decision}
        return answer

    def update(self, scores, y):
        self.right += self.labels(scores).eq(y.long().flatten()).sum().item()

def evaluate(net, loader):
    metric = Accuracy()
    for x, y in loader:
        metric.update(net(x), y)
"""
WHOLE_SET = """
def error_rate(scores, y):
    {decision}
    return (answer != y.flatten()).float().mean()

def evaluate(net, loader):
    pairs = [(net(x), y) for x, y in loader]
    return error_rate(*map(torch.cat, zip(*pairs)))
"""
SCIKIT_LEARN = """
from sklearn.metrics import accuracy_score

def decide(scores):
    {decision}
    return answer.long()

def evaluate(net, loader):
    return [accuracy_score(y.long().numpy(), decide(net(x))) for x, y in loader]
"""
CONSTANT = [
    "_, answer = torch.max(scores, 1)",
    "answer = scores.topk(1, dim=-1).indices.squeeze(-1)",
    "answer = F.softmax(scores, 1).round().flatten()",
    "answer = scores.sort(1)[1][:, 0]",
    "answer = scores.flatten().sigmoid() > 0",
]
CORRECT = [
    "answer = scores.flatten() > 0",
    "answer = scores.flatten().sigmoid().round()",
    "answer = torch.cat([-scores, scores], 1).max(1)[1]",
    "answer = scores.squeeze(1).heaviside(torch.ones(()))",
]


def make_setup(one_class: bool = False, bias: float = 0.0) -> Setup:
    x, y = points(2)
    targets = torch.zeros_like(y) if one_class else y
    setup = minimal_setup(network(1), x, y.float().unsqueeze(1), nn.BCEWithLogitsLoss())
    setup.model.get_parameter("2.bias").data += bias
    validation = torch.utils.data.TensorDataset(x, targets.float().unsqueeze(1))
    setup.val_loader = torch.utils.data.DataLoader(validation, batch_size=16)
    return setup


def e710_findings(folder: Path, evaluation: str, setup: Setup) -> list[Finding]:
    train = load_loop(folder / "loop.py", TRAIN + evaluation)
    return [finding for finding in all_findings(train, setup) if finding.code == "E710"]


@pytest.mark.parametrize("evaluation", [HELPER, METRIC_CLASS, WHOLE_SET, SCIKIT_LEARN])
@pytest.mark.parametrize("decision", CONSTANT)
def test_degenerate_metric_on_constant_predictions_fires_where_they_are_made(
    tmp_path: Path, evaluation: str, decision: str
) -> None:
    (finding,) = e710_findings(tmp_path, evaluation.format(decision=decision), make_setup())
    assert finding.severity == "error"
    assert source_line(finding) == decision


@pytest.mark.parametrize("evaluation", [HELPER, METRIC_CLASS, WHOLE_SET, SCIKIT_LEARN])
@pytest.mark.parametrize("decision", CORRECT)
def test_degenerate_metric_on_predictions_that_vary_finds_nothing(
    tmp_path: Path, evaluation: str, decision: str
) -> None:
    assert not e710_findings(tmp_path, evaluation.format(decision=decision), make_setup())


def test_degenerate_metric_after_many_training_steps_fires(tmp_path: Path) -> None:
    setup = make_setup()
    data = torch.utils.data.ConcatDataset([setup.train_loader.dataset] * 4)
    setup.train_loader = torch.utils.data.DataLoader(data, batch_size=1)
    assert e710_findings(tmp_path, HELPER.format(decision=CONSTANT[0]), setup)


@pytest.mark.parametrize("setup", [make_setup(one_class=True), make_setup(bias=50.0)], ids=["one class", "one sign"])
def test_degenerate_metric_on_targets_or_outputs_of_one_kind_finds_nothing(tmp_path: Path, setup: Setup) -> None:
    assert not e710_findings(tmp_path, HELPER.format(decision="answer = scores.flatten() > 0"), setup)


def test_degenerate_metric_on_mask_of_targets_finds_nothing(tmp_path: Path) -> None:
    evaluation = """
def evaluate(net, loader):
    for x, y in loader:
        scores = net(x)
        negative = y == torch.zeros_like(y)
        scores[negative].sum()
"""
    assert not e710_findings(tmp_path, evaluation, make_setup())
