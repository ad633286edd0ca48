"""E705: two classes are systematically confused with each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.metrics.classification import Counts, MutualConfusion, mutual_confusions
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import (
    classification_table,
    gaussian_clusters,
    healthy_classifier,
    mlp,
    train,
    training_setup,
)
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.predictions.classification import ClassificationTable
    from nbdebug.tools.errors import Errors

_SIGNIFICANCE, _MIN_ACCURACY_OF_OTHERS, _MAX_FINDINGS, _MIN_CLASSES = 0.01, 0.6, 3, 4


@rule("E705", "note")
def confused_pair(errors: Errors, *, times: float = 2.0, least: float = 0.05) -> Iterator[Finding]:
    """Two classes are systematically confused with each other.

    ## What it does
    Searches for pairs of classes that are confused with each other in both directions, more often than the errors of
    each class would give.

    ## Why it matters
    Such a pair has one cause: a missing feature, labels that annotators confuse, or swapped class names.

    ## How it is measured
    The expected counts distribute the errors of a class over the others in proportion to their sizes. A pair is
    reported if it has at least ``times`` = 2 as many errors as expected, in each direction, with a probability below
    0.01 by chance (Poisson, in each direction, Bonferroni over all pairs), and at ``least`` 5% of the rows of both
    classes. A class that receives the errors of all others therefore does not form a pair with any of them. At least
    four classes are required, since with three there is hardly another way to be wrong. If more rows of each class are
    predicted as the other than as itself, and six in ten rows of all other classes are correct, the names are swapped,
    and it is a warning.

    ## How to fix
    Compare the rows of both cells side by side.

    ## When to ignore
    When the two classes are similar by nature and could be merged.

    ## References
    Northcutt, Athalye and Mueller 2021, arXiv:2103.14749, for pairs that are confused in labels.
    """
    table = classification_table(errors)
    if len(table.classes) < _MIN_CLASSES:
        raise NotChecked(f"with only {len(table.classes)} classes, confused pairs cannot be distinguished")
    pairs = len(table.classes) * (len(table.classes) - 1) / 2
    significant_swaps = [
        swap
        for swap in mutual_confusions(table.matrix)
        if swap.p < _SIGNIFICANCE / pairs and _is_relevant(table.matrix, swap, times, least)
    ]
    for swap in significant_swaps[:_MAX_FINDINGS]:
        yield _finding(table, swap)


def _is_relevant(matrix: Counts, swap: MutualConfusion, times: float, min_share: float) -> bool:
    """Check whether a pair has enough errors."""
    exceeds_expected = swap.forward >= times * swap.expected[0] and swap.backward >= times * swap.expected[1]
    return bool(
        exceeds_expected
        and swap.forward + swap.backward >= min_share * (matrix[swap.first].sum() + matrix[swap.second].sum())
    )


def _is_swapped(matrix: Counts, swap: MutualConfusion) -> bool:
    """Check whether most rows of each class are predicted as the other, and the other classes are mostly correct."""
    others = np.delete(np.delete(matrix, [swap.first, swap.second], 0), [swap.first, swap.second], 1)
    rest = np.delete(matrix, [swap.first, swap.second], 0).sum()
    others_correct = np.trace(others) > _MIN_ACCURACY_OF_OTHERS * rest
    return bool(
        others_correct
        and swap.forward > matrix[swap.first, swap.first]
        and swap.backward > matrix[swap.second, swap.second]
    )


def _finding(table: ClassificationTable, swap: MutualConfusion) -> Finding:
    matrix, (a, b) = table.matrix, (table.classes[swap.first], table.classes[swap.second])
    swapped = _is_swapped(matrix, swap)
    first, second = matrix[swap.first].sum(), matrix[swap.second].sum()
    expected = " and ".join(f"{each:.1f}" for each in swap.expected)
    return Finding(
        message=f"{swap.forward} of {first} rows of class {a!r} are predicted as {b!r}, and {swap.backward} of "
        f"{second} the other way round; {expected} would be expected if errors were spread over all classes.",
        cause="The names of the two classes are swapped between training and these rows."
        if swapped
        else "The features that distinguish the two classes are missing or not learned, or their labels are confused.",
        fix=f"errors.rows(cells=[({swap.first}, {swap.second}), ({swap.second}, {swap.first})])",
        evidence={
            "pair": (a, b),
            "rows": (first, second),
            "there": swap.forward,
            "back": swap.backward,
            "expected": swap.expected,
            "p": swap.p,
        },
        explains=("E702",) if swapped else (),
        severity="warning" if swapped else None,
    )


_CENTERS = [(0.0, 0.0), (8.0, 0.0), (0.0, 8.0), (1.2, 9.2)]


def bad() -> Setup:
    """Four classes, two of which almost coincide."""
    data = [gaussian_clusters(rows, _CENTERS, [1.0] * 4, seed) for seed, rows in ((0, 768), (1, 1024))]
    return training_setup(mlp(2, 16, 4), data[0], data[1], torch.nn.CrossEntropyLoss())


def bad_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)


def good() -> Setup:
    """Separable classes."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
