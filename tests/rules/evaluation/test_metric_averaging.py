"""E708: what loops average over batches, and what they may."""

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


def said(loop: Callable[[Any, Any], Any], rows: int = 257, size: int = 128) -> list[Finding]:
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
    assert [one for one in debugger.findings.not_checked if one.code == "E708" and "broke" in one.why] == []
    return [one for one in debugger.findings if one.code == "E708"]


def f1_summed(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        predicted = model(x).argmax(1)
        total += f1_score(y, predicted)
    return total / len(loader)


def auc_listed(model: Any, loader: Any) -> float:
    found = []
    for _, (x, y) in enumerate(loader):
        chances = model(x).softmax(1)[:, 1]
        found.append(roc_auc_score(y, chances))
    return float(np.mean(found))


def perplexities(model: Any, loader: Any) -> float:
    total, count = 0.0, 0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        total = total + math.exp(loss.item())
        count += 1
    return total / count


def roots(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += torch.sqrt(F.mse_loss(model(x)[:, 0], y.float())).item() * len(y)
    return total / len(loader.dataset)


def losses(model: Any, loader: Any) -> float:
    criterion, found = nn.CrossEntropyLoss(), []
    for x, y in loader:
        loss = criterion(model(x), y)
        found.append(loss.item())
    return sum(found) / len(found)


def accuracies(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += (model(x).argmax(1) == y).sum().item() / len(y)
    return total / len(loader)


def accuracies_of_sklearn(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += accuracy_score(y, model(x).argmax(1))
    total /= len(loader)
    return total


BAD = [f1_summed, auc_listed, perplexities, roots, losses, accuracies, accuracies_of_sklearn]


@pytest.mark.parametrize("loop", BAD, ids=lambda one: one.__name__)
def test_averages_over_batches_are_found_at_their_line(loop: Callable[[Any, Any], Any]) -> None:
    (one,) = said(loop)
    assert one.severity == "warning"
    assert "+=" in str(one.where.source) or "append" in str(one.where.source) or "total +" in str(one.where.source)


def of_the_last(model: Any, loader: Any) -> float:
    right, rows = 0, 1
    for x, y in loader:
        hits = model(x).argmax(1) == y
        right, rows = hits.sum().item(), len(y)
    return right / rows


def loss_of_the_last(model: Any, loader: Any) -> float:
    for x, y in loader:
        scores = model(x)
        loss = F.cross_entropy(scores, y)
    return float(loss)


@pytest.mark.parametrize("loop", [of_the_last, loss_of_the_last], ids=lambda one: one.__name__)
def test_what_is_left_of_the_last_batch_alone_is_found(loop: Callable[[Any, Any], Any]) -> None:
    (one,) = said(loop)
    assert one.severity == "warning"
    assert "covers only the last of 3 batches, 1 rows; expected all 257" in one.message
    assert said(loop, rows=128) == []


def first_only(model: Any, loader: Any) -> float:
    for x, y in loader:
        share = (model(x).argmax(1) == y).float().mean().item()
        break
    return share


def running(model: Any, loader: Any) -> float:
    right = rows = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        rows += len(y)
        share = float(right / rows * len(y) / len(y))
    return share


def shown(model: Any, loader: Any) -> None:
    for x, y in loader:
        share = (model(x).argmax(1) == y).float().mean().item()
        print(share)
    print("the last", share)


def smoothed(model: Any, loader: Any) -> float:
    level = 0.0
    for x, y in loader:
        level = float(0.9 * level + 0.1 * F.cross_entropy(model(x), y).item())
    return level


def weighted_by_numpy(model: Any, loader: Any) -> float:
    found, sizes = [], []
    for x, y in loader:
        found.append(F.cross_entropy(model(x), y).item())
        sizes.append(len(y))
    return float(np.average(found, weights=sizes))


def one_of_two_ways(model: Any, loader: Any, by_rows: bool = True) -> float:
    total, found = 0.0, []
    for x, y in loader:
        loss = F.cross_entropy(model(x), y).item()
        found.append(loss)
        total += loss * len(y)
    return float(np.dot(found, [128, 128, 1]) / 257 if by_rows else np.mean(found))


def rows_counted(model: Any, loader: Any) -> float:
    right = rows = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        rows += len(y)
    return right / rows


def losses_by_size(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        size = x.size(0)
        loss = F.cross_entropy(model(x), y)
        total += loss.item() * size
    return total / len(loader.dataset)


def weighed_before(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        batch = F.cross_entropy(model(x), y).item() * y.shape[0]
        total += batch
    return total / len(loader.dataset)


def sums(model: Any, loader: Any) -> float:
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(model(x), y, reduction="sum").item()
    return total / len(loader.dataset)


def f1_of_all(model: Any, loader: Any) -> float:
    predictions, targets = [], []
    for x, y in loader:
        predictions.append(model(x).argmax(1))
        targets.append(y)
    return float(f1_score(torch.cat(targets), torch.cat(predictions)))


def perplexity_of_all(model: Any, loader: Any) -> float:
    total, rows = 0.0, 0
    for x, y in loader:
        total += F.cross_entropy(model(x), y).item() * len(y)
        rows += len(y)
    return math.exp(total / rows)


def printed(model: Any, loader: Any) -> None:
    for x, y in loader:
        f1_score(y, model(x).argmax(1))


def confidence(model: Any, loader: Any) -> float:
    found = []
    for x, _ in loader:
        found.extend(model(x).softmax(1).max(1).values.tolist())
    return sum(found) / len(found)


GOOD = [rows_counted, losses_by_size, weighed_before, sums, f1_of_all, perplexity_of_all, printed, confidence]
GOOD += [first_only, running, shown, smoothed, weighted_by_numpy, one_of_two_ways]


@pytest.mark.parametrize("loop", GOOD, ids=lambda one: one.__name__)
def test_what_is_counted_by_rows_or_at_the_end_draws_nothing(loop: Callable[[Any, Any], Any]) -> None:
    assert said(loop) == []


@pytest.mark.parametrize("loop", [losses, accuracies])
def test_means_of_equal_batches_draw_nothing(loop: Callable[[Any, Any], Any]) -> None:
    assert said(loop, rows=256) == []


def test_one_batch_is_the_whole() -> None:
    assert said(f1_summed, rows=100) == []


def test_a_last_batch_that_matters_little_draws_no_warning() -> None:
    assert [one.severity for one in said(losses, rows=1000, size=64)] in ([], ["note"])


def test_a_metric_of_each_row_by_itself_is_left_alone() -> None:
    assert said(perplexities, rows=20, size=1) == []
