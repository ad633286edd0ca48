"""Tests of E710 for predictions that are not the decisions that the loss trains, recognized by their values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.loop_monitor.wrong_decisions import WrongDecisionCounter
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.test_constant_decisions import HELPER, METRIC_CLASS, SCIKIT_LEARN, WHOLE_SET, e710_findings
from tests.loop_monitor.watched_loops import source_line

LISTS = """
def decide(scores):
    {decision}
    return answer

def evaluate(net, loader):
    guesses, truth = [], []
    for x, y in loader:
        guesses += decide(net(x)).tolist()
        truth += y.flatten().tolist()
    return sum(a == b for a, b in zip(guesses, truth)) / len(truth)
"""
WRONG = [
    (1, "answer = scores.flatten() > 0.5"),
    (1, "answer = torch.where(scores[:, 0] >= 0.5, 1.0, 0.0)"),
    (1, "answer = scores.squeeze(1).round()"),
    (3, "answer = scores.argmin(1)"),
    (3, "answer = scores.topk(3).indices[:, 2]"),
    (3, "answer = scores.softmax(0).argmax(1)"),
    (3, "answer = scores.max(dim=1)[0]"),
]
RIGHT = [
    (1, "answer = scores.flatten().sigmoid() > 0.5"),
    (1, "answer = scores.flatten() > -0.8"),  # a threshold of choice
    (3, "answer = (2 * scores).softmax(1).max(1)[1]"),
    (3, "answer = scores.topk(2).indices[:, 0]"),
    (3, "answer = (scores + torch.tensor([0.0, 0.0, 1.0])).argmax(1)"),  # another prior
]


def make_setup(outputs: int) -> Setup:
    x, y = points(max(outputs, 2))
    if outputs == 1:
        setup = minimal_setup(network(1), x, y.float().unsqueeze(1), nn.BCEWithLogitsLoss())
    else:
        setup = minimal_setup(network(outputs), x, y, nn.CrossEntropyLoss())
    setup.val_loader = torch.utils.data.DataLoader(setup.train_loader.dataset, batch_size=16)
    return setup


@pytest.mark.parametrize("evaluation", [HELPER, METRIC_CLASS, WHOLE_SET, SCIKIT_LEARN, LISTS])
@pytest.mark.parametrize(("outputs", "decision"), WRONG)
def test_degenerate_metric_on_wrong_decisions_fires_where_they_are_made(
    tmp_path: Path, evaluation: str, outputs: int, decision: str
) -> None:
    if evaluation is SCIKIT_LEARN and ("round" in decision or "[0]" in decision):
        pytest.skip("the conversion to integers changes these values")
    if evaluation is WHOLE_SET and "softmax" in decision:
        pytest.skip("the softmax runs over all batches together")
    findings = e710_findings(tmp_path, evaluation.format(decision=decision), make_setup(outputs))
    assert findings
    assert all(finding.severity == "error" for finding in findings)
    if "[0]" not in decision:  # of a value, the comparison is the place
        assert decision in [source_line(finding) for finding in findings]


@pytest.mark.parametrize("evaluation", [HELPER, METRIC_CLASS, WHOLE_SET, SCIKIT_LEARN, LISTS])
@pytest.mark.parametrize(("outputs", "decision"), RIGHT)
def test_degenerate_metric_on_right_decisions_finds_nothing(
    tmp_path: Path, evaluation: str, outputs: int, decision: str
) -> None:
    assert not e710_findings(tmp_path, evaluation.format(decision=decision), make_setup(outputs))


def test_scores_in_place_of_classes_are_reported_where_max_is_called(tmp_path: Path) -> None:
    decision = "guesses, _ = net(x).max(dim=1)"
    evaluation = f"""
def evaluate(net, loader):
    right = 0
    for x, y in loader:
        {decision}
        right += int((guesses == y.flatten()).sum())
    return right
"""
    (finding,) = e710_findings(tmp_path, evaluation, make_setup(3))
    assert source_line(finding).strip() == decision


def test_trace_that_fails_ends_without_reaching_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("tensors on two devices")

    monkeypatch.setattr(WrongDecisionCounter, "find_kind", fail)
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    setup.val_loader = DataLoader(TensorDataset(x, y), batch_size=16)
    correct = 0
    with Debugger.of(setup).watch() as watch:
        for _ in range(2):
            for inputs, targets in setup.train_loader:
                setup.optimizers[0].zero_grad()
                nn.functional.cross_entropy(setup.model(inputs), targets).backward()
                setup.optimizers[0].step()
            with torch.no_grad():
                for inputs, targets in setup.val_loader:
                    correct += int((setup.model(inputs).argmax(1) == targets).sum())
    assert correct > 0
    assert "DecisionMonitor (RuntimeError: tensors on two devices)" in watch.error_summary
