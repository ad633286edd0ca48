"""Tests of E708: metrics that a loop averages over batches, correctly and incorrectly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, train
from nbdebug.setup import Setup
from tests.rules.rule_findings import broken_rules


def evaluation_findings(loop: Callable[[Any, Any], Any], rows: int = 257, size: int = 128) -> list[Finding]:
    model = mlp(8, 8, 2)
    data = TensorDataset(*rings(rows, seed=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(*rings()), batch_size=32)
    setup = Setup(model, loader, DataLoader(data, size), loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))
    debugger = Debugger.of(setup)
    with debugger.watch():
        train(setup, 1)
        with torch.no_grad():
            loop(model, setup.val_loader)
    assert "E708" not in broken_rules(debugger.findings)
    return [finding for finding in debugger.findings if finding.code == "E708"]


def mean_f1(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        predicted = model(x).argmax(1)
        total += f1_score(y, predicted)
    return total / len(loader)


def mean_auc(model: Any, loader: Any) -> float:
    values = []
    for _, (x, y) in enumerate(loader):
        probabilities = model(x).softmax(1)[:, 1]
        values.append(roc_auc_score(y, probabilities))
    return float(np.mean(values))


def mean_perplexity(model: Any, loader: Any) -> float:
    total, count = 0.0, 0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        total = total + math.exp(loss.item())
        count += 1
    return total / count


def mean_rmse(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += torch.sqrt(F.mse_loss(model(x)[:, 0], y.float())).item() * len(y)
    return total / len(loader.dataset)


def mean_loss(model: Any, loader: Any) -> float:
    criterion, values = nn.CrossEntropyLoss(), []
    for x, y in loader:
        loss = criterion(model(x), y)
        values.append(loss.item())
    return sum(values) / len(values)


def mean_accuracy(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += (model(x).argmax(1) == y).sum().item() / len(y)
    return total / len(loader)


def mean_sklearn_accuracy(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += accuracy_score(y, model(x).argmax(1))
    total /= len(loader)
    return total


BATCH_AVERAGES = [mean_f1, mean_auc, mean_perplexity, mean_rmse, mean_loss, mean_accuracy, mean_sklearn_accuracy]


@pytest.mark.parametrize("loop", BATCH_AVERAGES, ids=lambda loop: loop.__name__)
def test_metric_averaging_of_batch_means_is_a_warning_at_its_line(loop: Callable[[Any, Any], Any]) -> None:
    (finding,) = evaluation_findings(loop)
    assert finding.severity == "warning"
    places = ["sum(values) / len(values)"] if loop is mean_loss else ["+=", "append", "total +"]
    assert any(text in str(finding.where.source) for text in places)


def last_batch_accuracy(model: Any, loader: Any) -> float:
    right, rows = 0, 1
    for x, y in loader:
        hits = model(x).argmax(1) == y
        right, rows = hits.sum().item(), len(y)
    return right / rows


def last_batch_loss(model: Any, loader: Any) -> float:
    for x, y in loader:
        scores = model(x)
        loss = F.cross_entropy(scores, y)
    return float(loss)


@pytest.mark.parametrize("loop", [last_batch_accuracy, last_batch_loss], ids=lambda loop: loop.__name__)
def test_metric_averaging_of_last_batch_alone_is_a_warning_with_row_counts(loop: Callable[[Any, Any], Any]) -> None:
    (finding,) = evaluation_findings(loop)
    assert finding.severity == "warning"
    assert "covers only the last of 3 batches, 1 rows; expected all 257" in finding.message
    assert evaluation_findings(loop, rows=128) == []


def first_batch_accuracy(model: Any, loader: Any) -> float:
    for x, y in loader:
        share = (model(x).argmax(1) == y).float().mean().item()
        break
    return share


def running_accuracy(model: Any, loader: Any) -> float:
    right = rows = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        rows += len(y)
        share = float(right / rows * len(y) / len(y))
    return share


def printed_accuracy(model: Any, loader: Any) -> None:
    for x, y in loader:
        share = (model(x).argmax(1) == y).float().mean().item()
        print(share)
    print("the last", share)


def smoothed_loss(model: Any, loader: Any) -> float:
    level = 0.0
    for x, y in loader:
        level = float(0.9 * level + 0.1 * F.cross_entropy(model(x), y).item())
    return level


def numpy_weighted_loss(model: Any, loader: Any) -> float:
    values, sizes = [], []
    for x, y in loader:
        values.append(F.cross_entropy(model(x), y).item())
        sizes.append(len(y))
    return float(np.average(values, weights=sizes))


def weighted_or_plain_loss(model: Any, loader: Any, by_rows: bool = True) -> float:
    total, values = 0.0, []
    for x, y in loader:
        loss = F.cross_entropy(model(x), y).item()
        values.append(loss)
        total += loss * len(y)
    return float(np.dot(values, [128, 128, 1]) / 257 if by_rows else np.mean(values))


def counted_accuracy(model: Any, loader: Any) -> float:
    right = rows = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        rows += len(y)
    return right / rows


def size_weighted_loss(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        size = x.size(0)
        loss = F.cross_entropy(model(x), y)
        total += loss.item() * size
    return total / len(loader.dataset)


def loss_weighted_in_batch(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        batch = F.cross_entropy(model(x), y).item() * y.shape[0]
        total += batch
    return total / len(loader.dataset)


def summed_loss(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(model(x), y, reduction="sum").item()
    return total / len(loader.dataset)


def f1_of_all_rows(model: Any, loader: Any) -> float:
    predictions, targets = [], []
    for x, y in loader:
        predictions.append(model(x).argmax(1))
        targets.append(y)
    return float(f1_score(torch.cat(targets), torch.cat(predictions)))


def perplexity_of_all_rows(model: Any, loader: Any) -> float:
    total, rows = 0.0, 0
    for x, y in loader:
        total += F.cross_entropy(model(x), y).item() * len(y)
        rows += len(y)
    return math.exp(total / rows)


def discarded_f1(model: Any, loader: Any) -> None:
    for x, y in loader:
        f1_score(y, model(x).argmax(1))


def mean_confidence(model: Any, loader: Any) -> float:
    values = []
    for x, _ in loader:
        values.extend(model(x).softmax(1).max(1).values.tolist())
    return sum(values) / len(values)


CORRECT_METRICS = [
    counted_accuracy,
    size_weighted_loss,
    loss_weighted_in_batch,
    summed_loss,
    f1_of_all_rows,
    perplexity_of_all_rows,
    discarded_f1,
    mean_confidence,
    first_batch_accuracy,
    running_accuracy,
    printed_accuracy,
    smoothed_loss,
    numpy_weighted_loss,
    weighted_or_plain_loss,
]


@pytest.mark.parametrize("loop", CORRECT_METRICS, ids=lambda loop: loop.__name__)
def test_metric_averaging_of_correct_metric_is_quiet(loop: Callable[[Any, Any], Any]) -> None:
    assert evaluation_findings(loop) == []


@pytest.mark.parametrize("loop", [mean_loss, mean_accuracy], ids=lambda loop: loop.__name__)
def test_metric_averaging_of_equal_batches_is_quiet(loop: Callable[[Any, Any], Any]) -> None:
    assert evaluation_findings(loop, rows=256) == []


def test_metric_averaging_of_a_single_batch_is_quiet() -> None:
    assert evaluation_findings(mean_f1, rows=100) == []


def test_metric_averaging_with_negligible_last_batch_is_at_most_a_note() -> None:
    assert [finding.severity for finding in evaluation_findings(mean_loss, rows=1000, size=64)] in ([], ["note"])


def test_metric_averaging_of_batches_of_one_row_is_quiet() -> None:
    assert evaluation_findings(mean_perplexity, rows=20, size=1) == []


def mean_f1_of_one_logit(model: Any, loader: Any) -> float:
    scores = []
    for x, y in loader:
        guess = (model(x)[:, 1:].squeeze(1) > 0).long()
        scores.append(f1_score(y.numpy(), guess.numpy(), zero_division=0))
    return float(np.mean(scores))


@pytest.mark.parametrize(
    ("loop", "collected", "after"),
    [
        (mean_f1_of_one_logit, "first.append(y.numpy()); second.append(guess.numpy())", "zero_division=0)"),
        (mean_auc, "first.append(y); second.append(probabilities)", "roc_auc_score(all_first, all_second)"),
        (mean_f1, "first.append(y); second.append(predicted)", "f1_score(all_first, all_second)"),
    ],
)
def test_metric_averaging_of_a_call_collects_the_arguments_of_that_call(
    loop: Callable[[Any, Any], Any], collected: str, after: str
) -> None:
    (finding,) = evaluation_findings(loop)
    assert collected in finding.fix
    assert after in finding.fix
    assert "argmax" not in finding.fix
