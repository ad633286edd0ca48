"""E702: a class is nearly never predicted right, while accuracy looks fine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.finding import Finding
from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.intervals import wilson
from nbdebug.registry import rule
from nbdebug.rules.judging import classified, clusters
from nbdebug.rules.loops import layers, run, told_apart, train
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.predictions.classes import Predictions
    from nbdebug.tools.errors import Errors

LEVEL, FINE, MOST_SAID = 0.95, 0.6, 5


@rule("E702", "warning")
def hidden_class_failure(errors: Errors, *, most: float = 0.25, share: float = 1 / 3) -> Iterator[Finding]:
    """A class is nearly never predicted right, while accuracy looks fine.

    ## What it does
    Looks for classes whose rows nearly all go to others, where the rows of the other classes are mostly right.

    ## Why it matters
    A rare class hardly moves the accuracy. It is often the one that the model is for.

    ## How it is measured
    The interval of the recall (Wilson, 95 % for all classes together by Bonferroni) lies under ``most`` = 0.25 and
    under a third (``share``) of the recall of all other rows, of which more than six in ten are right. With two classes
    it takes 12 rows of the class if none is right, with ten 27; under these nothing can be told. A class that is right
    more often than a guess as frequent as its predictions would be, by its interval, is known a little and is left
    alone if a tenth of it is found.

    ## How to fix
    Weigh the loss of the class, draw it more often, or move its threshold; look at its rows first: labels may be wrong.

    ## When to ignore
    When the class is not meant to be found.

    ## References
    Wilson 1927, doi:10.1080/01621459.1927.10502953. He and Garcia 2009, Learning from Imbalanced Data,
    doi:10.1109/TKDE.2008.239.
    """
    table = classified(errors)
    found = hidden(table.matrix, most, share)
    for one in found[:MOST_SAID]:
        yield finding(table, one, len(found))


def hidden(matrix: Counts, most: float, share: float) -> list[int]:
    """The classes that fail, those with the most rows first."""
    hits, support, rows = np.diag(matrix), matrix.sum(1), int(matrix.sum())
    there = int((support > 0).sum())
    if there < 2:
        return []
    _, high = wilson(hits, support, 1 - 2 * (1 - LEVEL) / there)
    low, _ = wilson(hits, support, LEVEL)
    others = (hits.sum() - hits) / np.maximum(rows - support, 1)
    blind = (matrix.sum(0) - hits) / np.maximum(rows - support, 1)  # how often rows of other classes are taken for it
    known = (low > blind) & (hits >= support / 10)
    with np.errstate(invalid="ignore"):
        fails = (high < most) & (high < share * others) & (others > FINE) & ~known & (support > 0)
    return sorted(np.flatnonzero(fails).tolist(), key=lambda one: -support[one])


def finding(table: Predictions, one: int, count: int) -> Finding:
    """One class."""
    row = table.matrix[one]
    support, hits = int(row.sum()), int(row[one])
    rows, right = int(table.matrix.sum()), int(np.trace(table.matrix))
    to = int(np.where(np.arange(len(row)) == one, -1, row).argmax())
    name, other = table.classes[one], table.classes[to]
    predicted = int(table.matrix[:, one].sum())
    return Finding(
        message=f"{hits} of {support} rows of class {name!r} are right, while {right / rows:.1%} of all {rows} are; "
        f"{int(row[to])} of them are taken for {other!r}.",
        cause=f"{name!r} is {'never' if not predicted else 'seldom'} predicted: it is too rare in training, left "
        f"out of it, or its rows look like those of {other!r}.",
        fix=f"errors.rows(cells=[({one}, {to})])   # look at them, then weigh the class: "
        f"nn.CrossEntropyLoss(weight=…), or a WeightedRandomSampler",
        evidence={"class": name, "right": hits, "rows": support, "predicted": predicted, "classes that fail": count},
        explains=("E703", "E704", "E705", "E709"),
    )


CENTERS = [(0.0, 0.0), (4.0, 0.0), (0.0, 4.0)]


def bad() -> Setup:
    """A class that the loss leaves out by its weight."""
    data = [clusters(rows, CENTERS, [0.45, 0.45, 0.1], seed) for seed, rows in ((0, 384), (1, 512))]
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 0.0]))
    return run(layers(2, 16, 3), data[0], data[1], loss, lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """All classes count."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
