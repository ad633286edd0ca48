"""D119: a class is seen in one split only."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.class_counts import ClassCounts
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points
from nbdebug.setup import Setup

CONSEQUENCES = ("D110", "D109", "D106", "D116", "L207", "T609", "E702", "E703", "E706", "E709")


@rule("D119", "warning")
def missing_class(class_counts: ClassCounts, *, level: float = 0.001) -> Iterator[Finding]:
    """A class is seen in training or in validation only.

    ## What it does
    Compares the classes of the two splits, where every sample of a split can be read.

    ## Why it matters
    What was never seen in training is never predicted; what never comes in validation is never judged. Data that are
    stored class after class and cut without shuffling are the usual reason.

    ## How it is measured
    By the probability that a random split leaves a class of that size out, which for n samples is (1 - n / all) to the
    power of the size of the split. It is a warning under ``level`` = 1 in 1000 over all classes, else a note.

    ## How to fix
    Cut the split from one permutation, or stratified by class.

    ## When to ignore
    When validation is meant to hold new classes, as for face verification or few-shot learning.

    ## References
    Documentation of sklearn.model_selection.train_test_split, arguments shuffle and stratify.
    """
    train, val = class_counts.splits.get("train"), class_counts.splits.get("val")
    if train is None or not val:
        raise NotChecked("there are no validation samples with one class for each")
    total, sizes = train.total() + val.total(), {"training": train.total(), "validation": val.total()}
    for split, other, here, there in (("training", "validation", train, val), ("validation", "training", val, train)):
        lone = [one for one in sorted(there) if one not in here]
        if not lone or ("train" if split == "training" else "val") not in class_counts.whole:
            continue
        chance = min((1 - there[one] / total) ** sizes[split] for one in lone) * len(class_counts.classes)
        listed = ", ".join(f"{one} ({there[one]:,} samples)" for one in lone[:5]) + (", …" if len(lone) > 5 else "")
        yield Finding(
            message=f"{len(lone)} of {len(class_counts.classes)} classes stand in {other} and never in {split}: "
            f"{listed}; a random split leaves such a class out with a probability of {min(chance, 1):.2g}.",
            cause="The data are ordered by class, and the split was cut without shuffling."
            if chance < level
            else "The class is so rare that the split left it out by chance.",
            fix="order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).tolist()\n"
            "train, val = Subset(data, order[:cut]), Subset(data, order[cut:])",
            evidence={"train": dict(sorted(train.items())[:50]), "val": dict(sorted(val.items())[:50])},
            explains=CONSEQUENCES,
            severity=None if chance < level else "note",
        )


def cut(order: torch.Tensor) -> Setup:
    """Sixty-four points in an order; the last sixteen are for validation."""
    x, y = (part[order] for part in points())
    train, val = TensorDataset(x[:48], y[:48]), TensorDataset(x[48:], y[48:])
    return Setup(network(3), DataLoader(train, 16, shuffle=True), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """A cut through data sorted by class."""
    return cut(torch.argsort(points()[1]))


def good() -> Setup:
    """The same cut after shuffling."""
    return cut(torch.randperm(64, generator=torch.Generator().manual_seed(0)))
