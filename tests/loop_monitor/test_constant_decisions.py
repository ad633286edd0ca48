"""Tests of E710 for predictions that stay constant whatever the model returns, recognized by their values."""

from __future__ import annotations

from collections.abc import Callable
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


MASKS = """
def masks(scores):
    {decision}
    return answer.reshape(scores.shape).float()

def evaluate(net, loader):
    both = either = 0.0
    for x, y in loader:
        guess = masks(net(x)).flatten()
        both += (guess * y.flatten()).sum().item()
        either += ((guess + y.flatten()) > 0).sum().item()
    return both / either
"""
PROBABILITIES = """
class Accuracy:
    def choose(self, scores):
        scores = scores.sigmoid() if scores.min() < 0 else scores
        {decision}
        return answer.flatten()

def evaluate(net, loader):
    accuracy = Accuracy()
    return [torch.logical_not(accuracy.choose(net(x)).bool() ^ y.flatten().bool()).float().mean() for x, y in loader]
"""
INDICES = ["answer = scores.argmax(dim=1)", "answer = scores.max(1).indices", "answer = torch.sort(scores, 1)[1]"]
NO_INDICES = [
    "answer = scores > 0.5",
    "answer = scores.flatten().argsort() % 2",
    "answer = scores.argsort(dim=0)",
    "answer = torch.cat([1 - scores, scores], 1).argmax(1)",
]


def mask_setup() -> Setup:
    x, y = points(2)
    x = x.reshape(-1, 1, 2, 2)
    setup = minimal_setup(
        nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, 1, 1)),
        x,
        (x > y[:, None, None, None] - 0.5).float(),
        nn.BCEWithLogitsLoss(),
    )
    setup.val_loader = setup.train_loader
    return setup


def probability_setup() -> Setup:
    x, y = points(2)
    setup = minimal_setup(nn.Sequential(network(1), nn.Sigmoid()), x, y.float().unsqueeze(1), nn.BCELoss())
    setup.val_loader = setup.train_loader
    return setup


@pytest.mark.parametrize("evaluation", [MASKS, PROBABILITIES])
@pytest.mark.parametrize("make", [mask_setup, probability_setup])
@pytest.mark.parametrize("decision", INDICES)
def test_degenerate_metric_on_indices_along_an_axis_of_one_value_fires_in_any_metric(
    tmp_path: Path, evaluation: str, make: Callable[[], Setup], decision: str
) -> None:
    (finding,) = e710_findings(tmp_path, evaluation.format(decision=decision), make())
    assert source_line(finding) == decision
    assert "axis of one value" in finding.message


@pytest.mark.parametrize("evaluation", [MASKS, PROBABILITIES])
@pytest.mark.parametrize("make", [mask_setup, probability_setup])
@pytest.mark.parametrize("decision", NO_INDICES)
def test_degenerate_metric_on_other_decisions_finds_nothing(
    tmp_path: Path, evaluation: str, make: Callable[[], Setup], decision: str
) -> None:
    assert not e710_findings(tmp_path, evaluation.format(decision=decision), make())
