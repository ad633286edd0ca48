"""E702: the recall of a class is close to zero while the overall accuracy is good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.measurements.labels import ClassCounts
from nbdebug.metrics.classification import Counts
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
from nbdebug.setup.source_lines import creation_line
from nbdebug.source.location import get_location
from nbdebug.statistics.intervals import wilson_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbdebug.predictions.per_element import PerElementTable
    from nbdebug.tools.errors import Errors

_RARE = 0.5  # of an equal share for each class
_CONFIDENCE_LEVEL, _MIN_RECALL_OF_OTHERS, _MAX_FINDINGS = 0.95, 0.6, 5


@rule("E702", "warning")
def hidden_class_failure(
    errors: Errors,
    setup: Setup,
    class_counts: ClassCounts | NotChecked,
    *,
    most: float = 0.25,
    share: float = 1 / 3,
    background: float = 0.5,
) -> Iterator[Finding]:
    """The recall of a class is close to zero while the overall accuracy is good.

    ## What it does
    Searches for classes almost all of whose rows are predicted as other classes, while the rows of the other classes
    are mostly correct.

    ## Why it matters
    A rare class hardly affects the accuracy, but is often the class that matters.

    ## How it is measured
    The confidence interval of the recall (Wilson, 95% for all classes together by Bonferroni) is below ``most`` = 0.25
    and below a third (``share``) of the recall of all other rows, of which more than six in ten are correct. If no row
    is correct, this requires 12 rows of the class with two classes and 27 with ten; fewer rows are inconclusive. A
    class is not reported if a tenth of its rows are correct and its recall, by its interval, is above that of a random
    guess that predicts the class as often. For masks and tags, recall is that of positions, and the interval is that of
    the number of samples that contain the class; a class must cover a ``background`` of half of the positions.

    ## How to fix
    Increase the weight of the class in the loss, sample it more often, or move its threshold. Inspect its rows first:
    the labels may be wrong.

    ## When to ignore
    When the class is not meant to be detected.

    ## References
    Wilson 1927, doi:10.1080/01621459.1927.10502953. He and Garcia 2009, Learning from Imbalanced Data,
    doi:10.1109/TKDE.2008.239.
    """
    from nbdebug.predictions.per_element import PerElementTable

    if isinstance(errors.table, PerElementTable):
        if errors.table.counts is None or errors.table.matrix.sum(1).max() < background * errors.table.matrix.sum():
            raise NotChecked("no class is a background that covers half of the positions")
        failing = _failing_classes(_counts_of_samples(errors.table), most, share)
        classes, matrix, unit = errors.table.classes, errors.table.matrix, "positions"
    else:
        table = classification_table(errors)
        failing = _failing_classes(table.matrix, most, share)
        classes, matrix, unit = table.classes, table.matrix, "rows"
    for class_index in failing[:_MAX_FINDINGS]:
        finding = _finding(classes, matrix, unit, class_index, len(failing))
        if isinstance(class_counts, ClassCounts) and unit == "rows":
            name = classes[class_index]
            label = class_index if setup.class_names else int(name) if name.isdigit() else -1
            finding = _with_training_counts(finding, class_counts.sampled, label)
        # The loss that is created there gives the class no larger weight than the background.
        where = get_location(creation_line(setup, setup.loss_fn)) if unit == "positions" else Location()
        yield replace(finding, where=where)


def _counts_of_samples(table: PerElementTable) -> NDArray[np.float64]:
    """Return the confusion matrix with the number of samples that contain a class as the sum of its row.

    Positions of one sample are alike, so that they are no independent evidence.
    """
    size = len(table.classes)
    samples = [(table.counts[:, row * size : (row + 1) * size].sum(1) > 0).sum() for row in range(size)]
    matrix = table.matrix.astype(np.float64)
    scaled: NDArray[np.float64] = matrix * (np.array(samples) / np.maximum(matrix.sum(1), 1))[:, None]
    return scaled


def _failing_classes(matrix: Counts | NDArray[np.float64], max_recall: float, share: float) -> list[int]:
    """Return the classes that fail, largest first."""
    hits, support, rows = np.diag(matrix), matrix.sum(1), matrix.sum()
    class_count = int((support > 0).sum())
    if class_count < 2:
        return []
    _, high = wilson_interval(hits, support, 1 - 2 * (1 - _CONFIDENCE_LEVEL) / class_count)
    low, _ = wilson_interval(hits, support, _CONFIDENCE_LEVEL)
    others = (hits.sum() - hits) / np.maximum(rows - support, 1)
    random_recall = (matrix.sum(0) - hits) / np.maximum(
        rows - support, 1
    )  # how often other classes are predicted as this one
    better_than_random = (low > random_recall) & (hits >= support / 10)
    with np.errstate(invalid="ignore"):
        fails = (
            (high < max_recall)
            & (high < share * others)
            & (others > _MIN_RECALL_OF_OTHERS)
            & ~better_than_random
            & (support > 0)
        )
    return sorted(np.flatnonzero(fails).tolist(), key=lambda class_index: -support[class_index])


def _with_training_counts(finding: Finding, counts: Counter[int], label: int) -> Finding:
    """Return a finding whose cause follows from how often the training loader yields the class."""
    own, total = counts[label], counts.total()
    if not total or label < 0:
        return finding
    name, share = finding.evidence["class"], own / total
    if not own:
        return replace(
            finding,
            cause=f"None of the {total:,} training samples has class {name!r}.",
            fix="Add samples of this class to the training split, or leave it out of the evaluation.",
        )
    if share < _RARE / max(len(counts), 1):
        return replace(finding, cause=f"{name!r} is rare in training: {own:,} of {total:,} samples have this class.")
    return replace(
        finding,
        cause=f"{name!r} is not rare in training ({own:,} of {total:,} samples): either the loss gives it little "
        "weight, or its rows resemble those of another class.",
        fix=finding.fix.partition("   #")[0] + "   # inspect them, and check the class weights of the loss",
    )


def _finding(classes: Sequence[str], matrix: Counts, unit: str, class_index: int, count: int) -> Finding:
    row = matrix[class_index]
    support, hits = int(row.sum()), int(row[class_index])
    rows, right = int(matrix.sum()), int(np.trace(matrix))
    confused_index = int(np.where(np.arange(len(row)) == class_index, -1, row).argmax())
    name, confused_name = classes[class_index], classes[confused_index]
    predicted = int(matrix[:, class_index].sum())
    return Finding(
        message=f"Recall of class {name!r} is {hits / support:.1%} ({hits} of {support}), while the overall accuracy "
        f"is {right / rows:.1%} ({rows} {unit}). {int(row[confused_index])} of the {support} are predicted as "
        f"{confused_name!r}.",
        cause=f"{name!r} is {'never' if not predicted else 'rarely'} predicted: either it is too rare in training, or "
        f"missing from it, or its rows resemble those of {confused_name!r}.",
        fix=f"errors.rows(cells=[({class_index}, {confused_index})])   # inspect them, then weight the class "
        "in the loss, or draw it more often",
        evidence={
            "class": name,
            "right": hits,
            "rows": support,
            "predicted": predicted,
            "predicted as the other class": int(row[confused_index]),
            "classes that fail": count,
            "accuracy": right / rows,
            "all rows": rows,
        },
        explains=("E703", "E704", "E705", "E709"),
    )


_CENTERS = [(0.0, 0.0), (4.0, 0.0), (0.0, 4.0)]


def bad() -> Setup:
    """A class whose weight in the loss is zero."""
    data = [gaussian_clusters(rows, _CENTERS, [0.45, 0.45, 0.1], seed) for seed, rows in ((0, 384), (1, 512))]
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 0.0]))
    return training_setup(mlp(2, 16, 3), data[0], data[1], loss, lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """All classes have the same weight."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
