"""Tests of E710 for metrics of exchanged arguments, and of predicted classes in place of scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.loop_monitor.mistaken_metrics import mistaken_metrics
from nbdebug.rules.examples import minimal_setup, network, points
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

TRAIN = """
import torch
from sklearn.metrics import precision_score, r2_score, recall_score, roc_auc_score

def collect(model, loader):
    model.eval()
    with torch.no_grad():
        pairs = [(model(x), y) for x, y in loader]
    scores, targets = map(torch.cat, zip(*pairs))
    return scores.flatten().numpy(), targets.flatten().numpy()

def evaluate(model, loader):
    s, y = collect(model, loader)
    return {call}  # here

def train(setup):
    history = dict({name}=[])
    for epoch in range(4):
        setup.model.train()
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
        history["{name}"].append(evaluate(setup.model, setup.val_loader))
"""
MISTAKES = {
    "AUC of classes": ("auc", "roc_auc_score(y, s > 0)", "AUC", "of the predicted classes"),
    "exchanged precision": ("val_precision", "precision_score(s > 0, y)", "precision", "exchanged"),
    "exchanged recall": ("recall", "recall_score(s > 0, y)", "recall", "exchanged"),
    "exchanged R²": ("quality", "r2_score(s, y)", "R²", "exchanged"),
}
CORRECT = {
    "AUC": ("auc", "roc_auc_score(y, s)"),
    "balanced accuracy": ("quality", "roc_auc_score(y, s > 0)"),
    "precision": ("precision", "precision_score(y, s > 0)"),
    "recall of another name": ("hit_rate", "recall_score(y, s > 0)"),
    "R²": ("r2", "r2_score(y, s)"),
}


def e710_findings(folder: Path, name: str, call: str) -> list[Finding]:
    x, y = points(2)
    targets = y.float().unsqueeze(1)
    if "r2" in call:
        targets = x[:, :1] + 0.3 * torch.randn(len(x), 1)
    else:
        targets = torch.where(torch.rand(len(x), 1) < 0.2, 1.0, targets)
    setup = minimal_setup(network(1), x, targets, nn.MSELoss() if "r2" in call else nn.BCEWithLogitsLoss())
    setup.val_loader = DataLoader(TensorDataset(x, targets), batch_size=16)
    loop = load_loop(folder / "loop.py", TRAIN.format(name=name, call=call))
    return [finding for finding in all_findings(loop, setup) if finding.code == "E710"]


@pytest.mark.parametrize(("name", "call", "metric", "problem"), MISTAKES.values(), ids=MISTAKES)
def test_mistaken_metric_is_recognized_by_its_value(
    tmp_path: Path, name: str, call: str, metric: str, problem: str
) -> None:
    (finding,) = e710_findings(tmp_path, name, call)
    assert source_line(finding).endswith("# here")
    assert finding.evidence["metric"] == metric
    assert problem in finding.message
    assert f"is {finding.evidence['value']:.4g}, the {metric}" in finding.message
    assert f"on these 64 rows is {finding.evidence['correct']:.4g}" in finding.message


@pytest.mark.parametrize(("name", "call"), CORRECT.values(), ids=CORRECT)
def test_correct_metric_is_quiet(tmp_path: Path, name: str, call: str) -> None:
    assert not e710_findings(tmp_path, name, call)


def test_mistaken_metrics_equal_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(200) < 0.3).astype(float)
    scores = labels + random.normal(size=200)
    values = {mistake.metric: (mistake.value, mistake.correct) for mistake in mistaken_metrics(scores, labels)}
    predicted = scores > 0.5
    assert values["precision"] == pytest.approx(
        (metrics.precision_score(predicted, labels), metrics.precision_score(labels, predicted))
    )
    assert values["AUC"] == pytest.approx(
        (metrics.roc_auc_score(labels, predicted), metrics.roc_auc_score(labels, scores))
    )
    targets = scores + random.normal(size=200)
    (mistake,) = mistaken_metrics(scores, targets)
    assert (mistake.value, mistake.correct) == pytest.approx(
        (metrics.r2_score(scores, targets), metrics.r2_score(targets, scores))
    )
