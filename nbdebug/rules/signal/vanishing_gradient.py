"""G403: gradients shrink from layer to layer towards the input."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from nbdebug.depth import TREND, Depth, depth
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import LEAST, settled, told
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup


@rule("G403", "warning")
def vanishing_gradient(record: Record, *, decades: float = 4.0, least: int = LEAST) -> Iterator[Finding]:
    """Gradients shrink from layer to layer towards the input.

    ## What it does
    Compares the gradients of the layers of your run with each other, each by itself and as a share of its weights.

    ## Why it matters
    With plain descent the first layers stand still; with Adam they follow what rounding leaves of the gradient. The
    loss stays near that of a constant answer, or the last layers learn alone.

    ## How it is measured
    By the median norm over all looks but the first ones, weights and biases of a layer together. It speaks where a
    layer gets ``decades`` = 4 powers of ten less for its weights than a later one, at least three powers less in
    itself, and the shrinking goes with depth. Layers without any gradient (frozen, waiting behind a branch that starts
    at zero) are left out, as are norms and embeddings; it takes four layers, and a hundred steps while the run goes on.

    ## How to fix
    ReLU or GELU in place of sigmoids, weights drawn for the activation, normalization or residual connections.

    ## When to ignore
    When the first layers are meant to stay as they are.

    ## References
    Hochreiter 1991; Glorot and Bengio 2010. Rules with a fixed bound (a mean of 1e-7) misfire under low precision and
    small losses; the comparison with the other layers of the same run does not.
    """
    if not settled(record):
        raise NotChecked("the run is young; gradients of its first steps may still grow")
    seen = depth(record, least)
    low = int(np.argmin(seen.relative))
    top = low + int(np.argmax(seen.relative[low:]))
    gap, alone = (float(values[top] - values[low]) for values in (seen.relative, seen.gradient))
    if gap >= decades and alone >= decades - 1 and seen.trend >= TREND:
        yield finding(seen, low, top)


def finding(seen: Depth, low: int, top: int) -> Finding:
    """The layer that gets least, and how far the others are above it."""
    sizes, shares = 10.0**seen.gradient, 10.0**seen.relative
    few = [i for i in range(top) if seen.relative[i] < seen.relative[top] - 3]
    each = 10 ** ((seen.relative[top] - seen.relative[low]) / max(top - low, 1))
    return Finding(
        message=f"The gradient shrinks by {each:.2g} times a layer towards the input: {seen.layers[top]} gets "
        f"{shares[top]:.2g} of its weights, {seen.layers[low]} {shares[low]:.2g} (norms {sizes[top]:.2g} and "
        f"{sizes[low]:.2g}); more than 1000 times less: {told([seen.layers[i] for i in few], shares[few])}. The median "
        f"of all layers is {np.median(shares):.2g}.",
        where=Where(seen.layers[low]),
        cause="Each layer on the way back multiplies the gradient by its weights and by the slope of its activation, "
        "and that product is far under 1.",
        fix="act = torch.nn.ReLU()   # in place of sigmoids; with\n"
        "torch.nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')   # or x = x + layer(norm(x))",
        evidence={
            "layers": list(seen.layers),
            "gradient": sizes.tolist(),
            "gradient / weight": shares.tolist(),
            "median": float(np.median(shares)),
        },
        explains=("G409", "O502", "T601", "T606", "T607", "T608", "T610", "T614"),
    )


def deep(act: type[nn.Module]) -> Setup:
    """Eight layers of one activation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [one for i in range(8) for one in (nn.Linear(16 if i else 4, 16), act())]
        model = nn.Sequential(*layers, nn.Linear(16, 3))
    return program(model, *points(), nn.CrossEntropyLoss())


def loop(setup: Setup) -> None:
    """A plain loop of eighty steps."""
    train(setup, 20)


def bad() -> Setup:
    """Sigmoids, whose slope is a quarter at most."""
    return deep(nn.Sigmoid)


def good() -> Setup:
    """GELUs."""
    return deep(nn.GELU)


bad_loop = good_loop = loop
