"""Tests of D106: a rare class, with and without samplers, weights or focal losses that compensate for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.data.dict_dataset import DictDataset
from tests.rules.rule_findings import fault_messages, rule_findings

X = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
LABELS = (X[:, 0] > 1.9).long()
DATA = TensorDataset(X, LABELS)
WEIGHT, HALF_WEIGHT = torch.tensor([1.0, 30.0]), torch.tensor([2.0, 1.0])


def focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    cross_entropy = F.cross_entropy(logits, target, reduction="none")
    return ((1 - torch.exp(-cross_entropy)) ** 2 * cross_entropy).mean()


def manual_weighted_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return (WEIGHT[target] * F.cross_entropy(logits, target, reduction="none")).mean()


def manual_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -F.log_softmax(logits, 1).gather(1, target[:, None]).mean()


def two_logit_setup(loss_fn: Any, **options: Any) -> Setup:
    return Setup(network(2), DataLoader(DATA, 50, **options), loss_fn=loss_fn)


def one_logit_setup(loss_fn: Any, *tail: nn.Module) -> Setup:
    data = TensorDataset(X, LABELS.float()[:, None])
    return Setup(network(1, *tail), DataLoader(data, 50, shuffle=True), loss_fn=loss_fn)


def balancing_sampler() -> Setup:
    weights = (1 / torch.bincount(LABELS).float())[LABELS]
    sampler = WeightedRandomSampler(weights.tolist(), len(X), generator=torch.Generator().manual_seed(0))
    return two_logit_setup(nn.CrossEntropyLoss(), sampler=sampler)


def undersampling() -> Setup:
    rare_indices, common_indices = LABELS.nonzero().flatten(), (LABELS == 0).nonzero().flatten()
    indices = torch.cat([rare_indices, common_indices[: 2 * len(rare_indices)]]).tolist()
    return two_logit_setup(nn.CrossEntropyLoss(), sampler=SubsetRandomSampler(indices))


FAULTY: dict[str, Callable[[], Setup]] = {
    "cross-entropy": lambda: two_logit_setup(nn.CrossEntropyLoss(), shuffle=True),
    "manual cross-entropy": lambda: two_logit_setup(manual_cross_entropy, shuffle=True),
    "nll": lambda: Setup(network(2, nn.LogSoftmax(1)), DataLoader(DATA, 50, shuffle=True), loss_fn=nn.NLLLoss()),
    "one logit": lambda: one_logit_setup(nn.BCEWithLogitsLoss()),
    "one probability": lambda: one_logit_setup(nn.BCELoss(), nn.Sigmoid()),
    "dictionaries": lambda: Setup(
        network(2), DataLoader(DictDataset(X, LABELS, "input", "label"), 50, shuffle=True), loss_fn=F.cross_entropy
    ),
    "equal weights": lambda: two_logit_setup(nn.CrossEntropyLoss(weight=torch.ones(2)), shuffle=True),
}
INVERTED_WEIGHTS: dict[str, Callable[[], Setup]] = {
    "weights by frequency": lambda: two_logit_setup(
        nn.CrossEntropyLoss(weight=torch.tensor([30.0, 1.0])), shuffle=True
    ),
    "pos_weight below one": lambda: one_logit_setup(nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1 / 30]))),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "weights of equally frequent classes": lambda: Setup(
        network(2),
        DataLoader(TensorDataset(X, (X[:, 0] > 0.3).long()), 50),
        loss_fn=nn.CrossEntropyLoss(weight=HALF_WEIGHT),
    ),
    "weights": lambda: two_logit_setup(nn.CrossEntropyLoss(weight=WEIGHT), shuffle=True),
    "manual weights": lambda: two_logit_setup(manual_weighted_cross_entropy, shuffle=True),
    "pos_weight": lambda: one_logit_setup(nn.BCEWithLogitsLoss(pos_weight=torch.tensor([30.0]))),
    "focal loss": lambda: two_logit_setup(focal_loss, shuffle=True),
    "balancing sampler": balancing_sampler,
    "undersampling": undersampling,
    "few samples": lambda: Setup(
        network(2), DataLoader(TensorDataset(X[:40], (torch.arange(40) > 35).long()), 10), loss_fn=nn.CrossEntropyLoss()
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_class_imbalance_without_compensation_is_reported(name: str) -> None:
    assert len(fault_messages(FAULTY[name](), "D106")) == 1


def test_class_imbalance_under_weight_of_samples_says_that_it_multiplies_both_classes() -> None:
    (finding,) = rule_findings(one_logit_setup(nn.BCEWithLogitsLoss(weight=torch.tensor([30.0]))), "D106")
    assert "`weight` of this loss multiplies both classes alike" in finding.cause
    assert "pos_weight=" in finding.fix


@pytest.mark.parametrize("name", INVERTED_WEIGHTS)
def test_class_imbalance_with_inverted_weights_names_the_weight_ratio(name: str) -> None:
    (message,) = fault_messages(INVERTED_WEIGHTS[name](), "D106")
    assert "weights a sample of class 0 30 times as much" in message


@pytest.mark.parametrize("name", HEALTHY)
def test_class_imbalance_with_compensation_is_quiet(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "D106") == []


HALF = (X[:, 0] > 0.3).long()


def setup_of_half(loss_fn: Any, labels: Tensor = HALF, classes: int = 2, sampler: Any = None) -> Setup:
    targets = labels if classes > 1 else labels.float()[:, None]
    return Setup(network(classes), DataLoader(TensorDataset(X, targets), 50, sampler=sampler), loss_fn=loss_fn)


def dice_and_cross_entropy(weight: float) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(logits: Tensor, target: Tensor) -> Tensor:
        p = logits.sigmoid()
        dice = 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
        return dice + F.binary_cross_entropy_with_logits(logits, target, pos_weight=torch.tensor(weight))

    return loss


def dice_of_probabilities(p: Tensor, target: Tensor) -> Tensor:
    return 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


def weighted_by_hand(weight: float) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(logits: Tensor, target: Tensor) -> Tensor:
        values = F.cross_entropy(logits, target, reduction="none")
        return (values * torch.where(target > 0, weight, 1.0)).mean()

    return loss


def balanced_twice() -> Setup:
    weights = (1 / torch.bincount(LABELS).float())[LABELS]
    sampler = WeightedRandomSampler(weights.tolist(), len(X), generator=torch.Generator().manual_seed(0))
    return setup_of_half(nn.CrossEntropyLoss(weight=WEIGHT), LABELS, sampler=sampler)


EXCESSIVE_WEIGHTS: dict[str, Callable[[], Setup]] = {
    "pos_weight": lambda: setup_of_half(nn.BCEWithLogitsLoss(pos_weight=torch.tensor(100.0)), classes=1),
    "dice and pos_weight": lambda: setup_of_half(dice_and_cross_entropy(300.0), classes=1),
    "weights": lambda: setup_of_half(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 60.0]))),
    "weights of the first class": lambda: setup_of_half(nn.CrossEntropyLoss(weight=torch.tensor([60.0, 1.0]))),
    "weights by hand": lambda: setup_of_half(weighted_by_hand(100.0)),
    "a sampler and weights": balanced_twice,
    "percent for shares": lambda: setup_of_half(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3e3])), LABELS),
}
LARGE_WEIGHTS: dict[str, Callable[[], Setup]] = {
    "a weight of recall": lambda: setup_of_half(nn.BCEWithLogitsLoss(pos_weight=torch.tensor(10.0)), classes=1),
    "twice the inverse frequency": lambda: setup_of_half(nn.CrossEntropyLoss(weight=2 * WEIGHT - 1), LABELS),
    "a common factor": lambda: setup_of_half(nn.CrossEntropyLoss(weight=torch.tensor([100.0, 100.0]))),
    "dice and inverse frequency": lambda: setup_of_half(dice_and_cross_entropy(30.0), LABELS, 1),
    "dice of probabilities": lambda: setup_of_half(dice_of_probabilities, classes=1),
    "a few of each class": lambda: setup_of_half(weighted_by_hand(5.0)),
}


@pytest.mark.parametrize("name", EXCESSIVE_WEIGHTS)
def test_weights_that_make_a_class_negligible_are_reported(name: str) -> None:
    (message,) = fault_messages(EXCESSIVE_WEIGHTS[name](), "D106")
    assert "weights that balance the classes give 50%" in message


@pytest.mark.parametrize("name", LARGE_WEIGHTS)
def test_large_weights_that_leave_both_classes_their_gradient_are_quiet(name: str) -> None:
    assert fault_messages(LARGE_WEIGHTS[name](), "D106") == []


def long_tailed_setup(classes: int, loss_fn: Any, rarest: int) -> Setup:
    """Classes with frequencies by Zipf's law, of which the last one has ``rarest`` samples."""
    counts = [round(200 / rank) for rank in range(1, classes)] + [rarest]
    labels = torch.repeat_interleave(torch.arange(classes), torch.tensor(counts))
    x = torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(0))
    return Setup(network(classes), DataLoader(TensorDataset(x, labels), 50, shuffle=True), loss_fn=loss_fn)


@pytest.mark.parametrize("loss_fn", [nn.CrossEntropyLoss(), manual_cross_entropy])
@pytest.mark.parametrize(
    ("classes", "rarest", "severity"), [(40, 5, "note"), (60, 3, "note"), (12, 2, "warning")], ids=["40", "60", "12"]
)
def test_class_imbalance_of_long_tail_is_a_note(classes: int, rarest: int, severity: str, loss_fn: Any) -> None:
    (finding,) = rule_findings(long_tailed_setup(classes, loss_fn, rarest), "D106")
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("loss_fn", "has_one_logit"),
    [(nn.BCEWithLogitsLoss(), True), (nn.CrossEntropyLoss(), False)],
    ids=["binary", "two"],
)
def test_fix_weights_the_classes_in_the_loss_that_the_model_has(loss_fn: nn.Module, has_one_logit: bool) -> None:
    build = one_logit_setup if has_one_logit else two_logit_setup
    (finding,) = rule_findings(build(loss_fn), "D106")
    assert ("pos_weight" in finding.fix) == has_one_logit
    assert ("CrossEntropyLoss" in finding.fix) != has_one_logit
