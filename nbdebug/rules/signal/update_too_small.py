"""G409: the steps are a vanishing fraction of the weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import Looks, Values, from_zero, learned, looks, module_of, settled, told, weights
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

BEHIND = 1000.0


@rule("G409", "warning")
def update_too_small(record: Record, *, ratio: float = 1e-5, least: int = 30) -> Iterator[Finding]:
    """The steps are a vanishing fraction of the weights, so that nothing changes in the time there is.

    ## What it does
    Compares each step of each weight with the size of that weight, over the whole run.

    ## Why it matters
    At 1e-3 a step, as is usual, weights can become others within a thousand steps; at 1e-6 they would take a million.
    The loss is flat, and looks like a model that cannot learn.

    ## How it is measured
    By the true change at each look, momentum and Adam's scaling and decay included. It speaks of all layers where none
    has ever (nine tenths of the looks) moved by more than ``ratio`` = 1e-5 of its size a step, and of single ones where
    they move a thousand times less than the median of the others, and under a tenth of that ratio. It takes ``least`` =
    30 steps, a hundred while the run goes on. Silent where the loss has fallen all the same, or the rate still rises;
    weights without steps, biases, norms, embeddings and those that began at zero are left out, and the end of a
    schedule counts for nothing.

    ## How to fix
    A higher rate: 1e-3 for Adam and 0.1 for SGD are where to start; the same rate for a group left behind.

    ## When to ignore
    When a part is meant to move as little.

    ## References
    Karpathy, CS231n notes 3: the ratio of updates to weights should be near 1e-3. One bound for all, as 1e-8 in older
    tools, sees only what stands still.
    """
    if record.steps < least:
        raise NotChecked(f"{record.steps} steps were recorded; it takes {least} to call them too small")
    if not settled(record):
        raise NotChecked("the run is young, or its rate still rises")
    moved = moving(record)
    most = moved.quantile(0.9)
    others = np.array([np.median(np.delete(most, i)) if len(most) > 1 else 0.0 for i in range(len(most))])
    few = np.max(most) > ratio
    small = np.flatnonzero((most <= ratio / 10) & (most * BEHIND <= others) if few else most <= ratio).tolist()
    if len(small) == len(most) and learned(record, 0.9):
        return
    if small:
        yield finding(moved.places, most, small)


def moving(record: Record) -> Looks:
    """The steps of the weights that have any, over their sizes; raises NotChecked where there is none."""
    ratios = looks(record, "update.ratio")
    known = set(ratios.places) - from_zero(record)
    names = [name for name in weights(record) if name in known]
    found = ratios.at(names)
    alive = [name for name, one in zip(names, found.quantile(0.9), strict=True) if np.isfinite(one) and one > 0]
    if not alive:
        raise NotChecked("no weight with finite steps was seen that did not begin at zero")
    return ratios.at(alive)


def finding(places: tuple[str, ...], most: Values, small: list[int]) -> Finding:
    """The places that stand nearly still, and what the others do."""
    names, every = [places[i] for i in small], len(small) == len(places)
    others = float(np.median(np.delete(most, small))) if not every else float("nan")
    beside = "as do all layers" if every else f"the median of the other layers is {others:.2g}"
    factor = 10 ** round(-3 - np.log10(most[small].max()))
    return Finding(
        message=f"{len(small)} of {len(places)} weights change by next to nothing in a step, as a share of their size: "
        f"{told(names, most[small])}; {beside}; expected about 1e-3.",
        where=Where(module_of(names[0]), names[0]),
        cause="The learning rate is orders of magnitude too low for these gradients."
        if every
        else "Their group has a far lower rate, or hardly any gradient reaches them.",
        fix=f"for group in optimizer.param_groups:\n    group['lr'] *= {factor:g}",
        evidence={"parameters": names, "ratio": most[small].tolist(), "median of the others": others},
        explains=("T601", "T606", "T607", "T608", "T610", "T614"),
    )


def trained_at(rate: float) -> Setup:
    """A small network under Adam at a rate."""
    model = network(3)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters(), rate),))


def loop(setup: Setup) -> None:
    """A plain loop of sixty steps."""
    train(setup, 15)


def bad() -> Setup:
    """A rate of a ten-millionth."""
    return trained_at(1e-7)


def good() -> Setup:
    """A usual rate."""
    return trained_at(1e-2)


bad_loop = good_loop = loop
