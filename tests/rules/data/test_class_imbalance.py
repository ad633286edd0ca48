"""D106 accounts for all that makes up for a rare class: samplers, weights, focal losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages

X = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
RARE = (X[:, 0] > 1.9).long()
DATA = TensorDataset(X, RARE)
WEIGHT, HALF = torch.tensor([1.0, 30.0]), torch.tensor([2.0, 1.0])


class Cells(Dataset[Any]):
    """Samples as dictionaries."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input": X[index], "label": RARE[index]}


def focal(logits: Tensor, target: Tensor) -> Tensor:
    cross_entropy = F.cross_entropy(logits, target, reduction="none")
    return ((1 - torch.exp(-cross_entropy)) ** 2 * cross_entropy).mean()


def weighted_by_hand(logits: Tensor, target: Tensor) -> Tensor:
    return (WEIGHT[target] * F.cross_entropy(logits, target, reduction="none")).mean()


def plain(logits: Tensor, target: Tensor) -> Tensor:
    return -F.log_softmax(logits, 1).gather(1, target[:, None]).mean()


def classes(loss_fn: Any, **given: Any) -> Setup:
    return Setup(network(2), DataLoader(DATA, 50, **given), loss_fn=loss_fn)


def one_logit(loss_fn: Any, *tail: nn.Module) -> Setup:
    data = TensorDataset(X, RARE.float()[:, None])
    return Setup(network(1, *tail), DataLoader(data, 50, shuffle=True), loss_fn=loss_fn)


def balanced() -> Setup:
    shares = (1 / torch.bincount(RARE).float())[RARE]
    sampler = WeightedRandomSampler(shares.tolist(), len(X), generator=torch.Generator().manual_seed(0))
    return classes(nn.CrossEntropyLoss(), sampler=sampler)


def undersampled() -> Setup:
    rare, common = RARE.nonzero().flatten(), (RARE == 0).nonzero().flatten()
    kept = torch.cat([rare, common[: 2 * len(rare)]]).tolist()
    return classes(nn.CrossEntropyLoss(), sampler=SubsetRandomSampler(kept))


FAULTY: dict[str, Callable[[], Setup]] = {
    "cross-entropy": lambda: classes(nn.CrossEntropyLoss(), shuffle=True),
    "a loss by hand": lambda: classes(plain, shuffle=True),
    "nll": lambda: Setup(network(2, nn.LogSoftmax(1)), DataLoader(DATA, 50, shuffle=True), loss_fn=nn.NLLLoss()),
    "one logit": lambda: one_logit(nn.BCEWithLogitsLoss()),
    "one probability": lambda: one_logit(nn.BCELoss(), nn.Sigmoid()),
    "dictionaries": lambda: Setup(network(2), DataLoader(Cells(), 50, shuffle=True), loss_fn=F.cross_entropy),
    "equal weights": lambda: classes(nn.CrossEntropyLoss(weight=torch.ones(2)), shuffle=True),
}
UPSIDE_DOWN: dict[str, Callable[[], Setup]] = {
    "weights by frequency": lambda: classes(nn.CrossEntropyLoss(weight=torch.tensor([30.0, 1.0])), shuffle=True),
    "pos_weight under one": lambda: one_logit(nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1 / 30]))),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "weights of classes that come up alike": lambda: Setup(
        network(2), DataLoader(TensorDataset(X, (X[:, 0] > 0.3).long()), 50), loss_fn=nn.CrossEntropyLoss(weight=HALF)
    ),
    "weights": lambda: classes(nn.CrossEntropyLoss(weight=WEIGHT), shuffle=True),
    "weights by hand": lambda: classes(weighted_by_hand, shuffle=True),
    "pos_weight": lambda: one_logit(nn.BCEWithLogitsLoss(pos_weight=torch.tensor([30.0]))),
    "focal loss": lambda: classes(focal, shuffle=True),
    "a balancing sampler": balanced,
    "undersampling": undersampled,
    "a few rare ones by chance": lambda: Setup(
        network(2), DataLoader(TensorDataset(X[:40], (torch.arange(40) > 35).long()), 10), loss_fn=nn.CrossEntropyLoss()
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_rare_class_that_nothing_makes_up_for_is_found(name: str) -> None:
    assert len(fault_messages(FAULTY[name](), "D106")) == 1


@pytest.mark.parametrize("name", UPSIDE_DOWN)
def test_weights_that_make_a_rare_class_rarer_are_told_apart(name: str) -> None:
    (found,) = fault_messages(UPSIDE_DOWN[name](), "D106")
    assert "weights a sample of class 0 30 times as much" in found


@pytest.mark.parametrize("name", HEALTHY)
def test_what_makes_up_for_it_is_seen(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "D106") == []
