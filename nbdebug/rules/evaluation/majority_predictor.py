"""E706: predictions are nearly all one class, though targets are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.finding import Finding
from nbdebug.metrics.intervals import wilson
from nbdebug.registry import rule
from nbdebug.rules.judging import classified
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.errors import Errors

LEVEL = 0.99


@rule("E706", "error")
def majority_predictor(errors: Errors, *, nearly: float = 0.9, usual: float = 0.8) -> Iterator[Finding]:
    """Predictions are nearly all one class, though targets are not.

    ## What it does
    Counts how often each class is predicted, and how often it is true.

    ## Why it matters
    The answer is the same whatever the input. An accuracy that is the share of that class can look like progress.

    ## How it is measured
    The 99 % interval (Wilson) of the share of the commonest prediction lies above ``nearly`` = 0.9, that of the share
    of rows whose target it is under ``usual`` = 0.8. It takes some sixty rows. Where targets are more uneven than that,
    always the same answer can be the best there is; E702 and E709 tell.

    ## How to fix
    See what ranks above it: a rate that killed the network (O501), inputs or gradients that are cut off (M301, G401),
    labels of training that are uneven (D106). Otherwise weigh the classes, or move the threshold.

    ## When to ignore
    Never, unless these rows were chosen so.

    ## References
    Wilson 1927, doi:10.1080/01621459.1927.10502953. Karpathy 2019, A Recipe for Training Neural Networks.
    """
    table = classified(errors)
    matrix = table.matrix
    rows, predicted = int(matrix.sum()), matrix.sum(0)
    top = int(predicted.argmax())
    among, true = int(predicted[top]), int(matrix[top].sum())
    if not rows or float(wilson(among, rows, LEVEL)[0]) < nearly or float(wilson(true, rows, LEVEL)[1]) > usual:
        return
    name = table.classes[top]
    yield Finding(
        message=f"{among} of {rows} predictions are {name!r}, which is the target of {true} ({true / rows:.0%}).",
        cause="The answer hardly depends on the input: the network has not learned, has died, or was trained on labels "
        "that are nearly all of this class.",
        fix="dbg.overfit()   # if sixteen samples cannot be learned either, the fault is in the model or the loss",
        evidence={"class": name, "predicted": among, "true": true, "rows": rows},
        explains=("E702", "E703", "E704", "E705", "E709"),
    )


def bad() -> Setup:
    """A rate a hundred times too high, which kills every unit."""
    return run(layers(8, 32, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=1.0)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """A fitting rate."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
