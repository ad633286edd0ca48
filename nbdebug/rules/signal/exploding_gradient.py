"""G404: gradients grow by orders of magnitude, over time or towards the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nbdebug.depth import TREND, Depth, depth
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import LEAST, learned, settled
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import program, regressor
from nbdebug.setup import Setup

SIGMAS = 6.0
PATIENCE = 20  # steps
EXPLAINS = ("G401", "G402", "G410", "G412", "T602", "T603", "T604", "T605")


@rule("G404", "error")
def exploding_gradient(record: Record, *, decades: float = 2.0, along_depth: float = 4.0) -> Iterator[Finding]:
    """Gradients grow by orders of magnitude, from step to step or from layer to layer towards the input.

    ## What it does
    Follows the norm of the whole gradient, as the optimizer gets it, over the steps of your run, and that of each layer
    over the depth of the model. Names the step, or the layer, and a bound to clip at.

    ## Why it matters
    One step along such a gradient throws the weights far away from where they were; after it the loss is worse, not a
    number, or stands still for good.

    ## How it is measured
    Over time: the largest norm is ``decades`` = 2 powers of ten over the median of the run and of its beginning, lies
    six deviations above it on the logarithmic scale (robust, by the median distance from the median), and the loss took
    harm: it is not finite in the end, ten times as large, or has not fallen in twenty steps or more since. A run whose
    norm is clipped is judged by what is left of it. Along depth: the first layers get ``along_depth`` = 4 powers of ten
    more for their weights than later ones.

    ## How to fix
    Clip the norm at what is usual in the run; lower the rate or warm it up; weights drawn for the activation, an
    orthogonal recurrent matrix, normalization.

    ## When to ignore
    When single batches are worth so much more, and the loss recovers.

    ## References
    Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063: why recurrent gradients explode, and clipping. Rousseeuw and
    Croux 1993: the median absolute deviation. The factor of 100 is a choice.
    """
    steps, norms = record.series("gradient_norm")
    if len(norms) < LEAST:
        raise NotChecked(f"{len(norms)} gradient norms were recorded, which are too few")
    burst = burst_of(steps, norms.astype(np.float64), decades)
    if burst is not None and harmed(record, burst.step):
        yield over_time(record, burst)
        return
    try:
        seen = depth(record, 1)
    except NotChecked:
        return
    gap = float(np.max(seen.relative) - seen.relative[-1])
    if gap >= along_depth and seen.trend <= -TREND and settled(record) and not learned(record):
        yield over_layers(seen)


@dataclass(frozen=True)
class Burst:
    """The largest gradient norm, the step that it came at, and what was usual."""

    step: int
    norm: float
    usual: float
    bound: float


def burst_of(steps: NDArray[np.int64], norms: NDArray[np.float64], decades: float) -> Burst | None:
    """The step at which the norm left what is usual in this run, by far; None where it never did."""
    kept = norms > 0
    steps, norms = steps[kept], norms[kept]
    finite = norms[np.isfinite(norms)]
    if not len(finite):
        return None
    logs = np.log10(finite)
    usual = min(float(np.median(logs)), float(np.median(logs[: max(3, len(logs) // 10)])))
    spread = max(1.4826 * float(np.median(np.abs(logs - usual))), 0.05) if len(finite) >= LEAST else 0.0
    far = usual + max(decades, min(SIGMAS * spread, 2 * decades))
    top = int(np.argmax(norms))
    if not np.isfinite(norms[top]) and float(logs.max()) < usual + 1:
        return None  # not finite out of nothing: an operation made it, which is another rule's
    if norms[top] < 10**far:
        return None
    return Burst(int(steps[top]), float(norms[top]), 10**usual, float(np.percentile(finite[logs < far], 95)))


def harmed(record: Record, step: int) -> bool:
    """Whether the loss is not finite or much larger in the end, or has not fallen in all the steps since a burst."""
    when, losses = record.series("loss")
    if not len(losses):
        return False
    last = losses[-max(3, len(losses) // 5) :].astype(np.float64)
    if not np.isfinite(last).all():
        return True
    if float(np.median(np.abs(last))) > 10 * abs(float(losses[0])):
        return True
    before, after = losses[when <= step], losses[when > step]
    if not len(before) or len(after) < PATIENCE:
        return False
    level = min(float(np.median(before[:PATIENCE])), float(np.median(before[-PATIENCE:])))
    fallen = 0.05 if len(after) < 5 * PATIENCE else 0.1
    now, first = float(np.median(after[-PATIENCE:])), abs(float(losses[0]))
    return now > level - fallen * abs(level) if not learned(record, 0.8) else now > level + fallen * first


def over_time(record: Record, burst: Burst) -> Finding:
    """The norm at its largest beside what is usual."""
    finite = np.isfinite(burst.norm)
    size = f"{burst.norm:.2g}, {burst.norm / burst.usual:.2g} times" if finite else "not finite any more, far over"
    losses = record.series("loss")[1]
    return Finding(
        message=f"At step {burst.step} the gradient norm is {size} the {burst.usual:.2g} that is usual in this run; "
        f"the loss went from {losses[0]:.3g} to {losses[-1]:.3g}.",
        where=Where(step=burst.step),
        cause="A step that was too long, or a product of many factors over 1, as along a sequence.",
        fix=f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={burst.bound:.2g})   # before step(); or a "
        "lower rate",
        evidence={"step": burst.step, "norm": burst.norm, "usual": burst.usual, "max_norm": burst.bound},
        explains=EXPLAINS,
    )


def over_layers(seen: Depth) -> Finding:
    """The layer that gets most, and the last one."""
    top, shares = int(np.argmax(seen.relative)), 10.0**seen.relative
    return Finding(
        message=f"The gradient grows towards the input: {seen.layers[top]} gets {shares[top]:.2g} of its weights, "
        f"{seen.layers[-1]} {shares[-1]:.2g}; the median of all layers is {np.median(shares):.2g}.",
        where=Where(seen.layers[top]),
        cause="Each layer on the way back multiplies the gradient by weights that are too large.",
        fix="torch.nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')   # of each layer, with zero biases",
        evidence={"layers": list(seen.layers), "gradient / weight": shares.tolist()},
        explains=EXPLAINS,
    )


def descended(rate: float) -> Setup:
    """A small regression by plain descent at a rate."""
    setup = regressor()
    return program(
        setup.model, *whole(setup), nn.MSELoss(), optimizers=(torch.optim.SGD(setup.model.parameters(), rate),)
    )


def whole(setup: Setup) -> tuple[torch.Tensor, torch.Tensor]:
    """All samples of a set-up."""
    found = [*setup.train_loader]
    return torch.cat([x for x, _ in found]), torch.cat([y for _, y in found])


def loop(setup: Setup) -> None:
    """A plain loop of forty steps."""
    train(setup, 10)


def bad() -> Setup:
    """A rate at which each step overshoots by more than the one before."""
    return descended(3.0)


def good() -> Setup:
    """A rate that descends."""
    return descended(0.05)


bad_loop = good_loop = loop
