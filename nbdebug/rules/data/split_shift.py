"""D109: the numbers of the two splits stand in different units."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.split_units import Units
from nbdebug.finding import Finding, Where
from nbdebug.graph.search import line_of, scales_by
from nbdebug.graph.source import where_of
from nbdebug.registry import rule
from nbdebug.rules.programs import network
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored

CONSEQUENCES = ("D104", "D125", "L208", "T609", "T611", "E702", "E703", "E706", "E709")
ORDER = "x_val = x_val[:, [2, 1, 0]]   # or read both with the same library: OpenCV gives blue first"
SAME = "mean, std = x_train.mean(0), x_train.std(0)\nx_train, x_val = (x_train - mean) / std, (x_val - mean) / std"


@rule("D109", "warning")
def split_shift(
    setup: Setup, split_units: list[Units], *, units: float = 2.0, alone: float = 10.0, moved: float = 1.0
) -> Iterator[Finding]:
    """The numbers of validation stand in other units than those of training, or in another order.

    ## What it does
    Compares location and spread of each feature, and of real-valued targets, in the two splits as the model sees them;
    and the channels of pictures with the same in reverse order.

    ## Why it matters
    A step of preparation that one split went through and the other did not (normalization, division by 255, another
    color order, targets in thousands) makes every validation score that of other data than were learned.

    ## How it is measured
    A warning takes values that spread at least ``units`` = 2 times wider or narrower (by the mean absolute deviation)
    in the middle feature and from one value to the next inside of samples, and in nine tenths of the features in the
    same direction: drift changes where a series stands, and rarely its steps. Where a sample is a single number,
    ``alone`` = 10 times. Channels are swapped when their means differ by 5 standard errors as they are, and by less
    than 2 in reverse. Means that moved by ``moved`` spreads in the middle feature alone are a note: that may well be
    drift.

    ## How to fix
    One function for both splits, with the numbers of the training split.

    ## When to ignore
    When validation is meant to come from elsewhere.

    ## References
    S. Rabanser, S. Günnemann, Z. Lipton, Failing Loudly: An Empirical Study of Methods for Detecting Dataset Shift
    (2019), arXiv:1810.11953.
    """
    for one in split_units:
        factor, most = one.factor, units if one.within is not None else alone
        if factor >= most or factor <= 1 / most:
            wider = f"{factor:.3g} times wider" if factor > 1 else f"{1 / factor:.3g} times narrower"
            line = line_of(scales_by(factor), authored(setup))
            where = where_of(line)
            yield finding(one, f"spread {wider} in validation than in training", SAME, where)
        elif one.swapped:
            yield finding(one, "have their channels in the reverse order in validation", ORDER, Where())
        elif len(one.moved) and float(one.moved.median()) > moved:
            yield drift(one)


def finding(one: Units, said: str, repair: str, where: Where) -> Finding:
    """Two splits that were prepared otherwise."""
    here, there = ([float(f"{value:.3g}") for value in side[:3]] for side in one.means)
    return Finding(
        message=f"The values of {one.part} {said}: means {here} and {there} of the first features.",
        where=where,
        cause="One split went through a step of preparation that the other did not.",
        fix=repair.replace("x_", "y_") if one.part == "target" else repair,
        evidence={"means": one.means, "mean absolute deviations": one.spreads, "inside of samples": one.within},
        explains=CONSEQUENCES,
    )


def drift(one: Units) -> Finding:
    """Means that moved."""
    return Finding(
        message=f"The means of {one.part} moved by {float(one.moved.median()):.3g} mean absolute deviations from "
        "training to validation.",
        cause="The split follows time or place, or one split was not centered.",
        evidence={"means": one.means, "moved": one.moved.tolist()[:20]},
        severity="note",
    )


def splits(factor: float) -> Setup:
    """Two classes; validation inputs are multiplied by ``factor``."""
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    y = (x.sum(1) > 0).long()
    train, val = TensorDataset(x[:120], y[:120]), TensorDataset(factor * x[120:], y[120:])
    return Setup(network(2), DataLoader(train, 16, shuffle=True), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Validation in other units."""
    return splits(10.0)


def good() -> Setup:
    """Both splits in the same units."""
    return splits(1.0)
