"""G411: the weights of a layer shrink to zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from nbdebug.finding import Finding, Where
from nbdebug.looks import looks, module_of, told, weights
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup


@rule("G411", "warning")
def weights_collapsed(record: Record, *, share: float = 0.01) -> Iterator[Finding]:
    """The weights of a layer shrink to zero.

    ## What it does
    Follows the size of the weights of each layer over your run.

    ## Why it matters
    A layer without weights gives the same output for every input, and hands no gradient to those before it: the model
    becomes a constant.

    ## How it is measured
    It speaks where the norm of a weight ends at less than ``share`` = 1 % of the largest it had, and the median of its
    last looks does so too. Biases, norms and embeddings are left out.

    ## How to fix
    Less weight decay (1e-2 for AdamW, 1e-4 for SGD are usual), or a smaller penalty in the loss.

    ## When to ignore
    When a layer is to be pruned away.

    ## References
    Loshchilov and Hutter 2019, arXiv:1711.05101: what decay does to each step, (1 - rate · decay) of the weight. The
    bound of 1 % is a choice.
    """
    sizes = looks(record, "weight.norm")
    known = set(sizes.places)
    sizes = sizes.at([name for name in weights(record) if name in known])
    with np.errstate(all="ignore"):
        left = np.maximum(sizes.values[-1], sizes[-3:].median) / sizes.largest
    gone = [i for i in range(len(left)) if left[i] < share]
    if not gone:
        return
    names, others = [sizes.places[i] for i in gone], np.delete(left, gone)
    beside = f"the median of the other layers is {np.median(others):.2g}" if len(others) else "as do all layers"
    yield Finding(
        message=f"The weights of {len(gone)} of {len(left)} layers shrank to next to nothing: of their largest norm "
        f"are left {told(names, left[gone])}; {beside}.",
        where=Where(module_of(names[0]), names[0]),
        cause="Weight decay, or a penalty in the loss, pulls harder than the gradient of the task.",
        fix="optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)   # a hundredth is usual",
        evidence={"parameters": names, "left": left[gone].tolist()},
        explains=("G401", "G403", "G410", "G415", "T601", "T606", "T607", "T608", "T610"),
    )


def decayed(decay: float) -> Setup:
    """A small network under plain descent with weight decay."""
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def loop(setup: Setup) -> None:
    """A plain loop of eighty steps."""
    train(setup, 20)


def bad() -> Setup:
    """A decay that takes a fifth of the weights at each step."""
    return decayed(2.0)


def good() -> Setup:
    """One that takes a hundred-thousandth."""
    return decayed(1e-4)


bad_loop = good_loop = loop
