"""D110: the class frequencies of the two splits differ by more than sampling noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.labels import ClassCounts
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network
from nbdebug.setup import Setup


@rule("D110", "warning", origin="validation")
def label_shift(class_counts: ClassCounts, *, apart: float = 0.2, level: float = 1e-4) -> Iterator[Finding]:
    """The class frequencies differ between training and validation.

    ## What it does
    Compares the share of each class in the two splits.

    ## Why it matters
    The validation score then does not describe the distribution that the model was trained on, but another mixture of
    classes. Typical sources are data sorted by class or by time and split without shuffling.

    ## How it is measured
    By the total variation distance: the share of samples that would have to change their class, from ``apart`` = 0.2,
    and only if the p-value of a chi-squared test of equal shares is below ``level`` = 1 in 10,000. A split that
    contains all classes about equally often (within a quarter) was balanced intentionally and is not reported. Splits
    are not compared if only one of them has negative labels, as unlabeled samples have.

    ## How to fix
    Split a random permutation of the data, or stratify by class.

    ## When to ignore
    When the split follows time or location, so that validation is meant to measure the shift.

    ## References
    Z. Lipton, Y.-X. Wang, A. Smola, Detecting and Correcting for Label Shift (2018), arXiv:1802.03916.
    """
    train, val = class_counts.splits.get("train"), class_counts.splits.get("val")
    if train is None or not val:
        raise NotChecked("there are no validation samples with one class each")
    if class_counts.is_dense:
        raise NotChecked("the classes of the positions of a sample depend on each other")
    class_counts.check_comparable()
    classes = class_counts.classes
    shares = [[split[label] / split.total() for label in classes] for split in (train, val)]
    distance = sum(abs(a - b) for a, b in zip(*shares, strict=True)) / 2
    if distance < apart or any(_is_balanced(split, classes) for split in (train, val)):
        return
    p_value = _chi_squared_p_value(train, val, classes)
    if p_value >= level:
        return
    worst = max(range(len(classes)), key=lambda i: abs(shares[0][i] - shares[1][i]))
    is_complete = len(class_counts.complete_splits) > 1
    read = "" if is_complete else f", in {train.total():,} and {val.total():,} samples that were read"
    yield Finding(
        message=f"Class {classes[worst]} makes up {shares[0][worst]:.0%} of training and {shares[1][worst]:.0%} of "
        f"validation{read}. The total variation distance of the class frequencies is {distance:.0%}, expected less "
        f"than {apart:.0%} (probability in a random split: {p_value:.1g}).",
        cause="A random split of one data set is very unlikely to give these frequencies. Possible causes are data "
        "that are sorted by class or time and were split without shuffling, splits from different sources, and changed "
        "labels.",
        fix="train, val = train_test_split(data, stratify=labels)   # from sklearn.model_selection",
        evidence={
            "train": dict(sorted(train.items())[:50]),
            "val": dict(sorted(val.items())[:50]),
            "shares of the class": (shares[0][worst], shares[1][worst]),
            "distance": distance,
            "expected less than": apart,
            "probability": p_value,
        },
        explains=("T609", "T611", "E702", "E703", "E706", "E709"),
        setup_fix="split again",
    )


def _is_balanced(split: Counter[int], classes: list[int]) -> bool:
    counts = [split[label] for label in classes]
    return min(counts) > 0 and max(counts) <= 1.25 * min(counts)


def _chi_squared_p_value(train: Counter[int], val: Counter[int], classes: list[int]) -> float:
    """Return the p-value of equal class shares."""
    table = torch.tensor([[split[label] for label in classes] for split in (train, val)], dtype=torch.float64)
    expected = table.sum(1, keepdim=True) * table.sum(0, keepdim=True) / table.sum()
    statistic = ((table - expected).square() / expected).sum()
    return float(torch.special.gammaincc(torch.tensor((len(classes) - 1) / 2, dtype=torch.float64), statistic / 2))


def _setup_with_class_share(share: float) -> Setup:
    """Two classes; the first makes up ``share`` of training and 30% of validation."""
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    y = torch.cat([(torch.arange(300) >= 300 * share).long(), (torch.arange(100) >= 30).long()])
    train, val = TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:])
    return Setup(network(2), DataLoader(train, 16, shuffle=True), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """The first class makes up 70% of training and 30% of validation."""
    return _setup_with_class_share(0.7)


def good() -> Setup:
    """The first class makes up 30% of both splits."""
    return _setup_with_class_share(0.3)
