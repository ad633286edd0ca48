"""D108: the same sample in training and validation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.nearness import Near
from nbdebug.evidence.sameness import Shared
from nbdebug.evidence.windows import Windows
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points
from nbdebug.setup import Setup


@rule("D108", "error")
def split_overlap(
    setup: Setup,
    shared_samples: Shared,
    near_copies: Near,
    shared_windows: Windows,
    *,
    share: float = 0.05,
    near: float = 0.1,
    times: float = 4.0,
    overlapping: float = 0.5,
) -> Iterator[Finding]:
    """The same sample stands in training and validation.

    ## What it does
    Compares the indices that both loaders visit where they read from one data set, and otherwise every sample of both
    splits that can be read, inputs with targets, bit by bit. Where none is the same, it looks for validation samples
    that are training samples slightly changed, or the same stretch of a series moved by a few steps.

    ## Why it matters
    The validation score counts what was memorized as if it had been understood.

    ## How it is measured
    Exactly. From ``share`` = 5 % of the validation samples on it is an error, as deepchecks has it; under that a
    warning. Data with few different values repeat by chance: there it speaks only when samples of the validation
    split are repeated in training at three standard errors, and twice, above the rate at which training samples
    repeat each other; else it is a note. A near copy lies nearer than 0.35 of the distance of the twentieth neighbor
    and has the same class; it is a warning from ``near`` = 10 % of the samples on, and ``times`` = 4 times the share
    that evenly spread samples would show in as many dimensions as the further neighbors tell (or three tenths of all
    samples beyond that share). Windows count that share three quarters of their steps, from ``overlapping`` = half of
    the validation samples on.

    ## How to fix
    Drop the copies before the split, and cut the split from one permutation.

    ## When to ignore
    When the validation split is meant to be seen in training, as to test whether a model can memorize.

    ## References
    deepchecks, train-test samples mix; B. Barz, J. Denzler, Do We Train on Test Data? (2020).
    """
    if setup.val_loader is None:
        raise NotChecked("there is no validation loader")
    if found := shared_samples.pairs:
        part = len(found) / shared_samples.val
        yield finding(shared_samples, part, severity(shared_samples, part, share))
        return
    if len(shared_windows.pairs) > overlapping * max(shared_windows.val, 1):
        yield moved(shared_windows)
    elif near_copies.share > max(near, least_share(near_copies.expected, times)):
        yield nearly(near_copies)


def least_share(expected: float, times: float) -> float:
    """The share of near copies that cannot be chance: some times the expected one, or three tenths of all beyond it."""
    return min(times * expected, expected + 0.3)


def severity(shared: Shared, part: float, share: float) -> Severity:
    """By how much is shared, and whether it can be chance."""
    if not shared.rich and not above_chance(shared, part):
        return "note"
    return "error" if part >= share else "warning"


def above_chance(shared: Shared, part: float) -> bool:
    """Whether validation samples stand in training more often than training samples stand in it twice."""
    pooled = (len(shared.pairs) + shared.twins * shared.train) / (shared.val + shared.train)
    error = math.sqrt(pooled * (1 - pooled) * (1 / shared.val + 1 / shared.train))
    return len(shared.pairs) > 2 and part > 2 * shared.twins and part > shared.twins + 3 * error


def finding(shared: Shared, part: float, severity: Severity) -> Finding:
    """How many samples are shared, and which."""
    listed = ", ".join(f"{there} (train {here})" for here, there in shared.pairs[:3])
    known = "by their index in one data set" if shared.by == "index" else "bit by bit, with their targets"
    chance = " Such data repeat by chance." if severity == "note" else ""
    return Finding(
        message=f"{len(shared.pairs)} of {shared.val} validation samples ({part:.1%}) also stand in training, "
        f"{known}: {listed}; expected none.{chance}",
        where=Where(sample=shared.pairs[0][1]),
        cause="The splits were cut from overlapping parts, or the data held copies before they were split.",
        fix="order = torch.randperm(len(data)).tolist()\n"
        "train, val = Subset(data, order[:cut]), Subset(data, order[cut:])   # after dropping copies",
        evidence={
            "share": part,
            "pairs of train and val": shared.pairs[:20],
            "compared": [shared.train, shared.val],
            "training samples that repeat": shared.twins,
        },
        explains=("T611", "D107"),
        severity=severity,
    )


def moved(found: Windows) -> Finding:
    """How many windows overlap with one of training."""
    here, there = found.pairs[0]
    return Finding(
        message=f"{len(found.pairs)} of {found.val} validation windows share all but {found.steps} of their "
        f"{found.length} steps or fewer with one of training, as {there} (train {here}) does; expected none.",
        where=Where(sample=there),
        cause="Overlapping windows were cut from one series, and then split at random.",
        fix="cut = int(0.8 * len(series))\n"
        "train, val = windows(series[:cut]), windows(series[cut:])   # split first, cut windows afterwards",
        evidence={"pairs of train and val": found.pairs[:20], "compared": found.val},
        explains=("T611", "D107"),
        severity="warning",
    )


def nearly(found: Near) -> Finding:
    """How many samples are near copies of training samples."""
    here, there = found.pairs[0]
    return Finding(
        message=f"{len(found.pairs)} of {found.asked} validation samples ({found.share:.0%}) are nearly the same as "
        f"one of training and have its class, as {there} (train {here}) is; expected {found.expected:.1%}.",
        where=Where(sample=there),
        cause="The data were augmented or oversampled before they were split, or come several to a source.",
        fix="train, val = split(data)   # first\ntrain = augment(train)   # afterwards, and only training",
        evidence={"share": found.share, "expected": found.expected, "pairs of train and val": found.pairs[:20]},
        explains=("T611", "D107"),
        severity="warning",
    )


def splits(start: int) -> Setup:
    """Forty-eight training samples, and validation on what comes from ``start`` on."""
    x, y = points()
    train, val = TensorDataset(x[:48], y[:48]), TensorDataset(x[start : start + 16], y[start : start + 16])
    return Setup(network(3), DataLoader(train, 16), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Validation on the last training samples."""
    return splits(32)


def good() -> Setup:
    """Validation on the others."""
    return splits(48)
