"""Tests of E708 for counts of correct predictions that are divided by the number of batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

HEAD = """
import torch
from torch.nn import functional as F

def train(setup):
    for _ in range(3):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
        with torch.no_grad():
            evaluate(setup, setup.model, setup.val_loader)
"""
INLINE = """
def evaluate(setup, model, loader):
    hits = rows = batches = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        rows += len(y)
        batches += 1
    return {result}
"""
HELPER = """
def agreement(output, y):
    return int((output.max(dim=-1).indices == y).sum())

def predict(model, x):
    return model(x)

def evaluate(setup, model, batch_source):
    n_ok = torch.tensor(0)
    for x, y in batch_source:
        scores = predict(model, x)
        n_ok = n_ok + agreement(scores, y)
    print({result})
"""
ENUMERATED = """
def evaluate(setup, model, loader):
    good, k = 0, 0
    for i, (x, y) in enumerate(loader):
        p = model(x).softmax(1)
        good += (p[:, 1] > p[:, 0]).eq(y.bool()).sum().item()
        k += 1
    value = {result}
    return value
"""


def e708_findings(tmp_path: Path, evaluation: str, result: str) -> list[Finding]:
    setup: Setup = training_setup(mlp(8, 16, 2), rings(128), rings(512, seed=1), nn.CrossEntropyLoss())
    train = load_loop(tmp_path / "loop.py", HEAD + evaluation.format(result=result))
    return [finding for finding in all_findings(train, setup) if finding.code == "E708"]


@pytest.mark.parametrize(
    ("evaluation", "result"),
    [
        (INLINE, "hits / len(loader)"),
        (INLINE, "100.0 * hits / batches"),
        (INLINE, "hits / max(1, len(loader))"),
        (HELPER, "n_ok / len(batch_source)"),
        (ENUMERATED, "good / k"),
    ],
)
def test_correct_predictions_divided_by_the_number_of_batches_are_reported(
    tmp_path: Path, evaluation: str, result: str
) -> None:
    (finding,) = e708_findings(tmp_path, evaluation, result)
    assert result in source_line(finding)
    assert "expected the number of rows 512" in finding.message
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    ("evaluation", "result"),
    [
        (INLINE, "hits / rows"),
        (INLINE, "hits / len(loader.dataset)"),
        (INLINE, "hits / (len(loader) * loader.batch_size)"),
        (INLINE, "hits / len(loader) / loader.batch_size"),
        (INLINE, "rows / batches"),
        (HELPER, "n_ok / 512"),
        (ENUMERATED, "good / len(loader.dataset)"),
    ],
)
def test_correct_predictions_divided_by_rows_have_no_finding(tmp_path: Path, evaluation: str, result: str) -> None:
    assert not e708_findings(tmp_path, evaluation, result)


COUNTER_CLASS = """
class Score:
    def __init__(self):
        self.right = self.rows = 0

def evaluate(setup, model, loader, score=Score()):
    {reset}
    for x, y in loader:
        score.right += (model(x).argmax(1) == y).sum().item()
        score.rows += len(y)
    return score.right / score.rows
"""
COUNTER_DICT = """
TOTALS = dict(right=0, rows=0)

def evaluate(setup, model, loader):
    {reset}
    totals = TOTALS
    for x, y in loader:
        totals["right"] += int((model(x).argmax(1) == y).sum())
        totals["rows"] += len(y)
"""


@pytest.mark.parametrize(
    ("evaluation", "reset", "line"),
    [
        (COUNTER_CLASS, "score.__init__()", "score.right += (model(x).argmax(1) == y).sum().item()"),
        (COUNTER_DICT, "TOTALS.update(right=0, rows=0)", 'totals["right"] += int((model(x).argmax(1) == y).sum())'),
    ],
    ids=["attributes", "dictionary"],
)
@pytest.mark.parametrize("is_reset", [True, False])
def test_metric_averaging_on_counts_reports_those_that_are_not_set_back(
    tmp_path: Path, evaluation: str, reset: str, line: str, is_reset: bool
) -> None:
    loop = load_loop(tmp_path / "loop.py", HEAD + evaluation.format(reset=reset if is_reset else "pass"))
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), nn.CrossEntropyLoss(), lr=1e-2)
    findings = [finding for finding in all_findings(loop, setup) if finding.code == "E708"]
    assert [source_line(finding) for finding in findings] == ([] if is_reset else [line])
