"""G413: the weights of a layer fall into two separate populations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import counts, module_of, weights
from nbdebug.record import Record
from nbdebug.record.bins import MIDDLE, edges, shares
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

FEWEST = 0.1  # the share of the smaller population
VALLEY = 0.15  # how low it must be between them, as a share of the lower peak
LEAST_WEIGHTS = 256
EMPTY = 0.01  # of the weights may lie in the middle
APART = 4  # bins from peak to peak: two octaves


@rule("G413", "note")
def weights_bimodal(record: Record, *, fewest: float = FEWEST, valley: float = VALLEY) -> Iterator[Finding]:
    """The weights of a layer fall into two separate populations.

    ## What it does
    Looks at the last histogram of each weight: how many are how large, regardless of their sign.

    ## Why it matters
    A part of a layer that lives on another scale than the rest is mostly units that died, rows that no sample reaches,
    or inputs that were never scaled. It may also be meant, so that this is a note.

    ## How it is measured
    On a logarithmic scale of two bins an octave. It speaks of two peaks at least two octaves apart, each with
    ``fewest`` = 10 % of the weights on its side of the valley, which is lower than ``valley`` = 15 % of the lower peak;
    and of weights that leave out the middle, as those do that were made binary. Zeros are not counted, nor weights that
    looked so at their first histogram.

    ## How to fix
    Look at which rows or columns are the small ones, and whether their inputs are constant or their units dead.

    ## When to ignore
    When weights are pruned, made sparse or binary on purpose.

    ## References
    Hartigan and Hartigan 1985, The dip test of unimodality: the wish for a valley between two peaks. The shares are a
    choice.
    """
    drawn = [name for name in weights(record) if f"weight|{name}" in record.drawn]
    names = [name for name, count in zip(drawn, counts(record, drawn), strict=True) if count >= LEAST_WEIGHTS]
    if not names or len(record.shapes.steps) < 2:
        raise NotChecked(f"no two histograms of {LEAST_WEIGHTS} weights or more were recorded")
    for name in names:
        first, last = (split_of(one, fewest, valley) for one in sides(record, name))
        if last is not None and first is None:
            yield finding(name, last, record.shapes.steps[-1])


@dataclass(frozen=True)
class Split:
    """Two populations: where each lies, as a phrase, and the share of the first."""

    one: str
    other: str
    share: float


def sides(record: Record, name: str) -> list[NDArray[np.float64]]:
    """The shares of a weight's histogram at the first and at the last look: negative and positive sizes, from small."""
    at = record.drawn.index(f"weight|{name}")
    found = [shares(record.shapes.row(i)[at]) for i in (0, len(record.shapes.rows) - 1)]
    return [np.stack([one[:MIDDLE][::-1], one[MIDDLE + 1 :]]) for one in found]


def split_of(signs: NDArray[np.float64], fewest: float, valley: float) -> Split | None:
    """Two populations, by size or by sign, if there are."""
    if signs.sum() < 0.5:
        return None
    sizes = signs.sum(0) / signs.sum()
    return by_size(sizes, fewest, valley) or by_sign(sizes, signs.sum(1) / signs.sum(), fewest)


def by_size(sizes: NDArray[np.float64], fewest: float, valley: float) -> Split | None:
    """Two peaks of the sizes with a valley between them."""
    smooth, mass = np.convolve(sizes, [0.25, 0.5, 0.25], "same"), np.cumsum(sizes)
    for low in np.flatnonzero((mass >= fewest) & (mass <= 1 - fewest)):
        left, right = int(np.argmax(smooth[: low + 1])), int(low + np.argmax(smooth[low:]))
        if right - left >= APART and smooth[low] < valley * min(smooth[left], smooth[right]):
            return Split(f"±{edges()[left]:.2g}", f"±{edges()[right]:.2g}", float(mass[low]))
    return None


def by_sign(sizes: NDArray[np.float64], sides: NDArray[np.float64], fewest: float) -> Split | None:
    """Weights on both sides of a middle that is empty."""
    peak = int(np.argmax(sizes))
    if sides.min() < fewest or sizes[: max(peak - APART, 0)].sum() > EMPTY:
        return None
    return Split(f"-{edges()[peak]:.2g}", f"+{edges()[peak]:.2g}", float(sides[0]))


def finding(name: str, split: Split, step: int) -> Finding:
    """Where the two populations lie."""
    return Finding(
        message=f"The weights of {name} fall into two populations: {split.share:.0%} of them near {split.one}, "
        f"the others near {split.other}, and next to none between.",
        where=Where(module_of(name), name, step=step),
        cause="Some rows or columns are trained and the others only decay, inputs differ in scale, or a bound holds "
        "them.",
        fix="(weight.abs() < bound).float().mean(0)   # which inputs, and by mean(1) which units, hold the small ones",
        evidence={"parameter": name, "first": split.one, "second": split.other, "share of the first": split.share},
    )


def bad() -> Setup:
    """A hidden layer of sixty-four units."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3))
    return program(model, *points(), nn.CrossEntropyLoss())


good = bad


def bad_loop(setup: Setup) -> None:
    """A loop that halves half of the columns of the first layer at each step."""
    for x, y in [*setup.train_loader] * 20:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
        with torch.no_grad():
            setup.model.get_parameter("0.weight")[:, ::2] *= 0.5


def good_loop(setup: Setup) -> None:
    """A plain loop."""
    for x, y in [*setup.train_loader] * 20:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
