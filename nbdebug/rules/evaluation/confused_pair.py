"""E705: two classes swap places systematically."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.swaps import Swap, swaps
from nbdebug.registry import rule
from nbdebug.rules.judging import classified, clusters
from nbdebug.rules.loops import layers, run, told_apart, train
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.predictions.classes import Predictions
    from nbdebug.tools.errors import Errors

LEVEL, FINE, MOST_SAID, FEWEST_CLASSES = 0.01, 0.6, 3, 4


@rule("E705", "note")
def confused_pair(errors: Errors, *, times: float = 2.0, least: float = 0.05) -> Iterator[Finding]:
    """Two classes swap places systematically.

    ## What it does
    Looks for pairs of classes that are taken for each other, both ways, more often than the errors of each would give.

    ## Why it matters
    Such a pair is one thing to mend, not many: a feature that is missing, labels that annotators mix up, names that
    are exchanged.

    ## How it is measured
    Expected is that the errors of a class spread over the others by their sizes. A pair is told that has ``times`` = 2
    as many errors as that, each way, and so many by chance in under one of a hundred tables (Poisson, each way,
    Bonferroni over all pairs), and at ``least`` 5 % of the rows of both. A class that takes in the errors of all others
    is so no pair with any. It takes four classes: with three there is hardly another way to be wrong. Where more rows
    of each class go to the other than stay, and six in ten rows of all others are right, the names are exchanged, and
    that is a warning.

    ## How to fix
    Look at the rows of both cells side by side.

    ## When to ignore
    When the two are alike by nature, and one name for both would do.

    ## References
    Northcutt, Athalye and Mueller 2021, arXiv:2103.14749, for pairs
    that are mixed up in labels.
    """
    table = classified(errors)
    if len(table.classes) < FEWEST_CLASSES:
        raise NotChecked(f"with {len(table.classes)} classes there is hardly another way to be wrong")
    pairs = len(table.classes) * (len(table.classes) - 1) / 2
    clear = [one for one in swaps(table.matrix) if one.p < LEVEL / pairs and matters(table.matrix, one, times, least)]
    for one in clear[:MOST_SAID]:
        yield finding(table, one)


def matters(matrix: Counts, one: Swap, times: float, least: float) -> bool:
    """Whether a pair is large enough."""
    many = one.there >= times * one.expected[0] and one.back >= times * one.expected[1]
    return bool(many and one.there + one.back >= least * (matrix[one.one].sum() + matrix[one.other].sum()))


def is_exchanged(matrix: Counts, one: Swap) -> bool:
    """Whether more rows of both go to the other than stay, while most rows of all other classes are right."""
    others = np.delete(np.delete(matrix, [one.one, one.other], 0), [one.one, one.other], 1)
    rest = np.delete(matrix, [one.one, one.other], 0).sum()
    known = np.trace(others) > FINE * rest
    return bool(known and one.there > matrix[one.one, one.one] and one.back > matrix[one.other, one.other])


def finding(table: Predictions, one: Swap) -> Finding:
    """One pair."""
    matrix, (a, b) = table.matrix, (table.classes[one.one], table.classes[one.other])
    exchanged = is_exchanged(matrix, one)
    first, second = matrix[one.one].sum(), matrix[one.other].sum()
    expected = " and ".join(f"{each:.1f}" for each in one.expected)
    return Finding(
        message=f"{a!r} is taken for {b!r} {one.there} times of {first}, and the other way {one.back} of {second}; "
        f"{expected} would be, did errors spread over all classes.",
        cause="The names of the two are exchanged between training and these rows."
        if exchanged
        else "What tells the two apart is not seen, not learned, or their labels are mixed up.",
        fix=f"errors.rows(cells=[({one.one}, {one.other}), ({one.other}, {one.one})])",
        evidence={"pair": (a, b), "there": one.there, "back": one.back, "expected": one.expected, "p": one.p},
        explains=("E702",) if exchanged else (),
        severity="warning" if exchanged else None,
    )


CENTERS = [(0.0, 0.0), (8.0, 0.0), (0.0, 8.0), (1.2, 9.2)]


def bad() -> Setup:
    """Four classes, two of which lie nearly at the same place."""
    data = [clusters(rows, CENTERS, [1.0] * 4, seed) for seed, rows in ((0, 768), (1, 1024))]
    return run(layers(2, 16, 4), data[0], data[1], torch.nn.CrossEntropyLoss())


def bad_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)


def good() -> Setup:
    """Classes that can be told."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
