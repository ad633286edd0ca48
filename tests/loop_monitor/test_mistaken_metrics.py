"""Tests of E710 for metrics of exchanged arguments, of predicted classes for scores, and of ignored labels."""

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


TAG = """
import torch

def train(setup):
    for epoch in range(4):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
        hits, counted = 0, 0
        with torch.no_grad():
            for x, y in setup.val_loader:
                is_hit = setup.model(x).argmax(1) == y  # here
                hits += {hits}
                counted += {counted}
        accuracy = hits / counted
"""


class Tagger(nn.Linear):
    """Scores of 3 classes at 5 positions, which stand after the classes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).unflatten(1, (3, 5))


@pytest.mark.parametrize(
    ("hits", "counted", "is_mistaken"),
    [
        ("is_hit.sum().item()", "y.numel()", True),
        ("is_hit[y != 3].sum().item()", "(y != 3).sum().item()", False),
    ],
    ids=["all labels", "labels that count"],
)
def test_accuracy_over_ignored_labels_is_reported(tmp_path: Path, hits: str, counted: str, is_mistaken: bool) -> None:
    x, _ = points()
    tags = (x @ torch.randn(x.shape[1], 5)).gt(0).long().masked_fill(torch.rand(len(x), 5) < 0.3, 3)
    setup = minimal_setup(Tagger(x.shape[1], 15), x, tags, nn.CrossEntropyLoss(ignore_index=3))
    setup.val_loader = DataLoader(TensorDataset(x, tags), batch_size=16)
    loop = load_loop(tmp_path / "loop.py", TAG.format(hits=hits, counted=counted))
    found = [finding for finding in all_findings(loop, setup) if finding.code == "E710"]
    assert len(found) == is_mistaken
    for finding in found:
        assert source_line(finding).endswith("# here")
        assert "accuracy over all labels" in finding.message
        assert f"without these labels, it is {finding.evidence['correct']:.4g}" in finding.message
        assert finding.evidence["value"] < 0.8 * finding.evidence["correct"]


def test_mistaken_metrics_equal_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(200) < 0.3).astype(float)
    scores = labels + random.normal(size=200)
    values = {mistake.metric: (mistake.value, mistake.correct) for mistake in mistaken_metrics(scores, labels, -100)}
    predicted = scores > 0.5
    assert values["precision"] == pytest.approx(
        (metrics.precision_score(predicted, labels), metrics.precision_score(labels, predicted))
    )
    assert values["AUC"] == pytest.approx(
        (metrics.roc_auc_score(labels, predicted), metrics.roc_auc_score(labels, scores))
    )
    targets = scores + random.normal(size=200)
    (mistake,) = mistaken_metrics(scores, targets, -100)
    assert (mistake.value, mistake.correct) == pytest.approx(
        (metrics.r2_score(scores, targets), metrics.r2_score(targets, scores))
    )
