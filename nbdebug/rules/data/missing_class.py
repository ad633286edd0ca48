"""D119: a class occurs in only one split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import exp, lgamma

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.labels import ClassCounts
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup

_CONSEQUENCES = ("D110", "D109", "D106", "D116", "L207", "T609", "E702", "E703", "E706", "E709")
_LEFT_OUT = (
    "The shares of the other classes agree in both splits, so the samples were not sorted by class. The source of the "
    "validation data may not have this class."
)
_MIN_AGREEING_CLASSES = 3  # a split of sorted samples by position leaves one class in both parts
_AGREEMENT_LEVEL = 0.05


@rule("D119", "warning", origin="samples")
def missing_class(class_counts: ClassCounts, *, level: float = 0.001) -> Iterator[Finding]:
    """A class occurs only in training or only in validation.

    ## What it does
    Compares the classes of the two splits, if every sample of a split can be read. For masks and tags, the samples with
    a class are counted.

    ## Why it matters
    A class that is missing from training is never predicted; a class that is missing from validation is never
    evaluated. The usual reason is data sorted by class and split without shuffling.

    ## How it is measured
    By the probability that a random split misses a class of that size (hypergeometric distribution), for the largest
    class that is missing. It is a warning below ``level`` = 1 in 1000 over all classes, else a note. Splits of which
    only one has negative labels, such as those of unlabeled samples, are not compared. The finding is also a note if
    all validation samples have the same label, training has several classes, and the training samples are not sorted
    by class: the label may then be a placeholder. It is a note, too, if validation lacks a class other than the last
    ones, and the shares of at least three other classes agree in both splits (chi-squared test): the data were not
    sorted, and validation data of another source may not have that class. Without the last classes, the others may be
    numbered from zero again.

    ## How to fix
    Split a random permutation of the data, or stratify by class.

    ## When to ignore
    When validation is meant to contain new classes, as in face verification or few-shot learning.

    ## References
    Documentation of sklearn.model_selection.train_test_split, arguments shuffle and stratify.
    """
    train, val = class_counts.splits.get("train"), class_counts.splits.get("val")
    if train is None or not val:
        raise NotChecked("there are no validation samples with one class each")
    class_counts.check_comparable()
    sizes = {"training": class_counts.sizes["train"], "validation": class_counts.sizes["val"]}
    total = sum(sizes.values())
    for split, other, present, other_counts in (
        ("training", "validation", train, val),
        ("validation", "training", val, train),
    ):
        missing = [label for label in sorted(other_counts) if label not in present]
        if not missing or ("train" if split == "training" else "val") not in class_counts.complete_splits:
            continue
        largest = max(other_counts[label] for label in missing)
        probability = _probability_of_missing(largest, sizes[split], total)
        is_chance = probability * len(class_counts.classes) >= level
        is_sampled = ("val" if split == "training" else "train") not in class_counts.complete_splits
        read = f", of {sizes[other]:,} that were read" if is_sampled else ""
        listed = ", ".join(f"{label} ({other_counts[label]:,} samples)" for label in missing[:5]) + (
            ", …" if len(missing) > 5 else ""
        )
        placeholder = _placeholder(class_counts) if split == "validation" else None
        is_left_out = split == "validation" and _is_left_out(train, val)
        yield Finding(
            message=f"{len(missing)} of {len(class_counts.classes)} classes occur in {other} but not in {split}: "
            f"{listed}{read}. A random split misses a class of {largest:,} samples with a probability of "
            f"{probability:.2g}.",
            cause=_LEFT_OUT if is_left_out and not is_chance else _cause(class_counts, is_chance, placeholder),
            fix="Stratify the split by class."
            if is_chance
            else "If these samples have no labels, set their labels to -1. Otherwise, stratify the split by class."
            if placeholder is not None
            else "If the model will meet this class, add samples of it to the validation data."
            if is_left_out
            else "Split the samples in random order, or stratify the split by class.",
            evidence={
                "train": dict(sorted(train.items())[:50]),
                "val": dict(sorted(val.items())[:50]),
                "probability": probability,
                "samples of the class": largest,
            },
            explains=_CONSEQUENCES,
            severity="note" if is_chance or is_left_out or placeholder is not None else None,
            setup_fix="split again",
        )


def _placeholder(counts: ClassCounts) -> int | None:
    """Return the only label of validation if it may stand for unlabeled samples; None if there are others.

    A split of sorted data by position can leave one class too, but then the training samples are sorted.
    """
    train, val = counts.splits["train"], counts.splits["val"]
    is_single = len(val) == 1 and set(val) < set(train) and not counts.is_dense
    return next(iter(val)) if is_single and "train" not in counts.sorted_splits else None


def _is_left_out(train: Counter[int], val: Counter[int]) -> bool:
    """Return whether validation lacks classes other than the last ones, and agrees with training in the others.

    Without the last classes, a second encoder may have numbered the others again.
    """
    shared = sorted(train.keys() & val.keys())
    missing = train.keys() - val.keys()
    if len(shared) < _MIN_AGREEING_CLASSES or val.keys() - train.keys() or not min(missing, default=0) < shared[-1]:
        return False
    from scipy.stats import chi2_contingency

    counts = [[split[label] for label in shared] for split in (train, val)]
    return bool(chi2_contingency(counts).pvalue >= _AGREEMENT_LEVEL)


def _cause(counts: ClassCounts, is_chance: bool, placeholder: int | None) -> str:
    if is_chance:
        return "The class is so rare that it is missing from the split by chance."
    if placeholder is not None:
        return (
            f"All validation labels are {placeholder}, while the training samples are not sorted by class. The label "
            "may be a placeholder for samples without a label, such as those of another domain."
        )
    if "train" in counts.sorted_splits:
        return "The samples are sorted by class and were probably split without shuffling."
    return (
        "A random split of one data set is very unlikely to miss this class. Possible causes are data that were sorted "
        "before the split, and splits from different sources."
    )


def _probability_of_missing(samples: int, split_size: int, total: int) -> float:
    """Return the probability that a random split of some size has none of the samples of a class."""
    others = total - samples
    if others < split_size:
        return 0.0
    return exp(
        lgamma(others + 1) - lgamma(others - split_size + 1) - lgamma(total + 1) + lgamma(total - split_size + 1)
    )


def _split_setup(order: torch.Tensor) -> Setup:
    """64 points in the given order; the last 16 are for validation."""
    x, y = (part[order] for part in points())
    train, val = TensorDataset(x[:48], y[:48]), TensorDataset(x[48:], y[48:])
    return Setup(network(3), DataLoader(train, 16, shuffle=True), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Data sorted by class, split without shuffling."""
    return _split_setup(torch.argsort(points()[1]))


def good() -> Setup:
    """The same split after shuffling."""
    return _split_setup(torch.randperm(64, generator=torch.Generator().manual_seed(0)))
