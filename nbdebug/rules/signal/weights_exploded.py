"""G412: weights grow without end, or a few of them outgrow all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from nbdebug.finding import Finding, Severity, Where
from nbdebug.looks import Flags, Looks, from_zero, learned, looks, module_of, told, weights
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

STILL = 1.1  # growth in the last quarter of the run
TAIL, THIN = 0.5, 0.2  # the largest weight as a share of the norm: what it is accused of, and what it began at
SWOLLEN = 3.0


@rule("G412", "warning")
def weights_exploded(record: Record, *, times: float = 10.0) -> Iterator[Finding]:
    """Weights grow without end, or a few of them outgrow all others.

    ## What it does
    Follows the size of the weights of each layer, and of the largest weight in it, over your run.

    ## Why it matters
    Weights that keep growing follow a loss that has no floor, or a rate that overshoots; scores become extreme, and in
    the end they are not finite. A layer that hangs on one weight answers to one input alone.

    ## How it is measured
    It speaks where the norm of a weight ends at over ``times`` = 10 times that of the first look and grew by a tenth in
    the last quarter of the run, or is not finite after it had grown; and where the largest weight holds half of the
    norm, which it did not at first, and is three times what it was. Weights that began at zero are left out, and so is
    growth of weights that stand right before a normalization, for which their size means nothing. Where the loss has
    fallen by a third to something over zero, both are notes.

    ## How to fix
    A loss with a floor and the right sign, a lower rate, inputs of one scale, weight decay.

    ## When to ignore
    When the weights began far too small, and the loss falls.

    ## References
    van Laarhoven 2017, arXiv:1706.05350: before a normalization the size of weights only sets the rate. The factor of
    ten is a choice.
    """
    sizes = looks(record, "weight.norm", least=3)
    skip, scaled = from_zero(record), normalized(record)
    known = set(sizes.places) - skip
    names = [name for name in weights(record) if name in known]
    sizes, largest = sizes.at(names), looks(record, "weight.absmax", names, 0)
    free = np.array([name not in scaled for name in names], bool)
    grown = grows(sizes, times) & free
    tailed = hangs(sizes, largest) & ~grown
    severity: Severity | None = "note" if learned(record) else None
    if grown.any():
        yield replace(growth(sizes, grown, times), severity=severity)
    if tailed.any():
        yield replace(tail(sizes, largest, tailed), severity=severity)


def normalized(record: Record) -> set[str]:
    """The parameters of layers that a normalization follows in the order of the model."""
    kinds = [one.kind for one in record.modules[1:]] + [""]
    return {
        name for one, after in zip(record.modules, kinds, strict=True) if "Norm" in after for name in one.parameters
    }


def grows(sizes: Looks, times: float) -> Flags:
    """Which places have grown by a factor, and grow on."""
    first, last = sizes.values[0], sizes.values[-1]
    before = sizes.values[max(0, int(np.searchsorted(sizes.steps, 0.75 * sizes.steps[-1])) - 1)]
    with np.errstate(all="ignore"):
        finite = sizes.largest / first
        lost = ~np.isfinite(last) & (finite > times)
        return np.asarray(lost | (np.isfinite(last) & (last > times * first) & (last > STILL * before)))


def hangs(sizes: Looks, largest: Looks) -> Flags:
    """Which places hang on one weight, as they did not at first."""
    if len(largest.steps) != len(sizes.steps):
        return np.zeros(len(sizes.places), bool)
    known, every = np.isfinite(largest.values), np.arange(len(sizes.places))  # of large tensors at some looks only
    first, last = known.argmax(0), len(known) - 1 - known[::-1].argmax(0)
    with np.errstate(all="ignore"):
        shares = largest.values / sizes.values
        swollen = largest.values[last, every] > SWOLLEN * largest.values[first, every]
        tailed = (shares[last, every] > TAIL) & (shares[first, every] < THIN) & swollen
    return np.asarray(tailed & np.isfinite(sizes.values[-1]))


def growth(sizes: Looks, grown: Flags, times: float) -> Finding:
    """How much the weights have grown."""
    names = [name for name, found in zip(sizes.places, grown, strict=True) if found]
    with np.errstate(all="ignore"):
        factors = sizes.largest / sizes.values[0]
    others = factors[~grown]
    beside = f"the median of the other layers is {np.median(others):.2g}" if len(others) else "as did all layers"
    end = "" if np.isfinite(sizes.values[-1]).all() else ", and are not finite in the end"
    return Finding(
        message=f"The weights of {len(names)} of {len(factors)} layers grew to more than {times:g} times their size "
        f"and grow on{end}: {told(names, factors[grown])} times; {beside}.",
        where=Where(module_of(names[0]), names[0]),
        cause="The loss has no floor in that direction, or each step overshoots by more than the one before.",
        fix="loss = criterion(output, target)   # not its negative; and a lower rate, or weight_decay=1e-2",
        evidence={"parameters": names, "growth": factors[grown].tolist()},
        explains=("G402", "T601", "T602", "T606"),
    )


def tail(sizes: Looks, largest: Looks, tailed: Flags) -> Finding:
    """How much of a layer one weight is."""
    names = [name for name, found in zip(sizes.places, tailed, strict=True) if found]
    shares = largest.values[-1] / sizes.values[-1]
    others = shares[~tailed & ~np.isnan(shares)]
    beside = f"{np.median(others):.2g} in the other layers" if len(others) else "less than a fifth at first"
    return Finding(
        message=f"One weight outgrew all others in {len(names)} of {len(shares)} layers: it is "
        f"{told(names, shares[tailed])} of the norm, and {beside}.",
        where=Where(module_of(names[0]), names[0]),
        cause="One input is far larger than the others, or a few steps were far too large.",
        fix="x = (x - x.mean(0)) / x.std(0)   # inputs of one scale; or a lower rate",
        evidence={"parameters": names, "share": shares[tailed].tolist()},
        explains=("T606",),
    )


def upside_down(output: Tensor, target: Tensor) -> Tensor:
    """The loss with the wrong sign."""
    return -nn.functional.cross_entropy(output, target)


def loop(setup: Setup) -> None:
    """A plain loop of three hundred steps."""
    train(setup, 75)


def bad() -> Setup:
    """A loss that falls for ever."""
    return classifier(loss_fn=upside_down)


def good() -> Setup:
    """The same with its right sign."""
    return classifier()


bad_loop = good_loop = loop
