"""D110: the labels of the two splits differ beyond sampling noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.class_counts import ClassCounts
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network
from nbdebug.setup import Setup


@rule("D110", "warning")
def label_shift(class_counts: ClassCounts, *, apart: float = 0.2, level: float = 1e-4) -> Iterator[Finding]:
    """The classes come up at other frequencies in validation than in training.

    ## What it does
    Compares the share of each class in the two splits.

    ## Why it matters
    The validation score then is not that of the data which the model was trained for: it says how the model would do on
    another mixture. Data ordered by class or by time and cut without shuffling look so.

    ## How it is measured
    By the share of samples that would have to change their class, from ``apart`` = 0.2 on, and only where a chi-squared
    test of equal shares gives less than ``level`` = 1 in 10,000. A split that holds all classes equally often (within
    a quarter) was balanced on purpose, and is left alone.

    ## How to fix
    Cut the split from one permutation, or stratified by class.

    ## When to ignore
    When the split follows time or place, so that the shift is what validation is to measure.

    ## References
    Z. Lipton, Y.-X. Wang, A. Smola, Detecting and Correcting for Label Shift (2018), arXiv:1802.03916.
    """
    train, val = class_counts.splits.get("train"), class_counts.splits.get("val")
    if train is None or not val:
        raise NotChecked("there are no validation samples with one class for each")
    classes = class_counts.classes
    shares = [[split[one] / split.total() for one in classes] for split in (train, val)]
    distance = sum(abs(a - b) for a, b in zip(*shares, strict=True)) / 2
    if distance < apart or any(balanced(split, classes) for split in (train, val)):
        return
    chance = chi_squared(train, val, classes)
    if chance >= level:
        return
    worst = max(range(len(classes)), key=lambda i: abs(shares[0][i] - shares[1][i]))
    yield Finding(
        message=f"Class {classes[worst]} makes up {shares[0][worst]:.0%} of training and {shares[1][worst]:.0%} of "
        f"validation; {distance:.0%} of the samples would have to change their class for equal shares, expected under "
        f"{apart:.0%} (probability in a random split {chance:.1g}).",
        cause="The data are ordered, by class or by time, and the split was cut without shuffling; or the labels of "
        "one split were changed.",
        fix="train, val = train_test_split(data, stratify=labels)   # of sklearn.model_selection",
        evidence={"train": dict(sorted(train.items())[:50]), "val": dict(sorted(val.items())[:50]), "apart": distance},
        explains=("T609", "T611", "E702", "E703", "E706", "E709"),
    )


def balanced(split: Counter[int], classes: list[int]) -> bool:
    """Whether a split holds all classes about equally often."""
    counts = [split[one] for one in classes]
    return min(counts) > 0 and max(counts) <= 1.25 * min(counts)


def chi_squared(train: Counter[int], val: Counter[int], classes: list[int]) -> float:
    """The probability of shares that differ as much or more in a random split."""
    table = torch.tensor([[split[one] for one in classes] for split in (train, val)], dtype=torch.float64)
    expected = table.sum(1, keepdim=True) * table.sum(0, keepdim=True) / table.sum()
    statistic = ((table - expected).square() / expected).sum()
    return float(torch.special.gammaincc(torch.tensor((len(classes) - 1) / 2, dtype=torch.float64), statistic / 2))


def mixtures(share: float) -> Setup:
    """Two classes, in equal parts of validation, of which training holds ``share`` of the first."""
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    y = torch.cat([(torch.arange(300) >= 300 * share).long(), (torch.arange(100) >= 30).long()])
    train, val = TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:])
    return Setup(network(2), DataLoader(train, 16, shuffle=True), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Seven tenths of training are of the first class, and three tenths of validation."""
    return mixtures(0.7)


def good() -> Setup:
    """Three tenths in both."""
    return mixtures(0.3)
