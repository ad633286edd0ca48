"""Compares two models, or two epochs of one, on the same samples: which are fixed and broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.formatting import format_value
from nbdebug.metrics import comparison
from nbdebug.metrics.classification import Counts, confusion_matrix
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.table import PredictionTable, Rows
from nbdebug.tools.errors.data import check_classification
from nbdebug.views.images import named_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANGES = ("broken", "fixed", "both wrong", "both right")
_MAX_CLASSES_IN_PLOT = 20  # classes in the plot


def match_rows(new: ClassificationTable, old: ClassificationTable) -> tuple[Rows, Rows]:
    """Return the rows of both tables that hold the same samples, in the order of the first."""
    if (new.index is None) != (old.index is None):
        raise SetupError("only one of the two tables has dataset indices; expected both or none. Run both on a loader.")
    if new.index is None or old.index is None:
        if len(new) != len(old):
            raise SetupError(f"before has {len(old)} rows; expected {len(new)}, in the same order. Pass the same rows.")
        return np.arange(len(new)), np.arange(len(new))
    for indices in (new.index, old.index):
        if len(np.unique(indices)) < len(indices):
            raise SetupError("a table contains a sample twice; expected each once. Use a loader without replacement.")
    _, new_rows, old_rows = np.intersect1d(new.index, old.index, assume_unique=True, return_indices=True)
    order = np.argsort(new_rows)
    return new_rows[order], old_rows[order]


def check_same_targets(new: ClassificationTable, old: ClassificationTable) -> None:
    """Raise SetupError if the same samples have different targets."""
    different = int((names_by_index(new.classes, new.target) != names_by_index(old.classes, old.target)).sum())
    if different:
        raise SetupError(
            f"{different} of {len(new)} samples have different targets in the two tables; expected the same. "
            "Compare on the same data, with the same class_names."
        )


def names_by_index(names: tuple[str, ...], indices: np.ndarray) -> np.ndarray:
    """Return names by index, "" for -1."""
    return np.asarray(np.array([*names, ""], str)[indices])


def classify_changes(before: ClassificationTable, after: ClassificationTable) -> np.ndarray:
    """Return the change of each row: broken, fixed, both wrong, both right, or "" without a target."""
    right_before, right_after = before.right, after.right
    return np.select(
        [after.target < 0, right_before & ~right_after, right_after & ~right_before, ~right_after],
        np.array(["", *CHANGES[:3]]),
        CHANGES[3],
    )


def unmatched_note(shared: int, new: int, old: int) -> tuple[str, ...]:
    """Return a note if samples are in only one of the tables."""
    unmatched = new + old - 2 * shared
    return (f"{unmatched} samples are in only one of the two tables and were left out",) if unmatched else ()


def accuracy_gain(table: PredictionTable) -> comparison.PairedComparison:
    """Return the paired comparison of a table with the column ``change``, over rows with a target."""
    classification = check_classification(table)
    change = classification.columns["change"][classification.target >= 0]
    return comparison.compare_paired(
        np.isin(change, ("broken", "both right")), np.isin(change, ("fixed", "both right"))
    )


def gain_text(gain: comparison.PairedComparison) -> str:
    """Return the comparison in one line."""
    points = f"{100 * gain.gain:+.1f} points of accuracy ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
    return f"{gain.fixed} fixed, {gain.broken} broken of {gain.rows}: {points}, McNemar p = {format_value(gain.p)}"


@dataclass(frozen=True)
class ChangeCounts:
    """Fixed and broken rows per class, and ``moves`` from the earlier to the later predicted class (classes × classes).

    ``wrong`` counts the moves that are wrong now. ``names`` holds the classes of both models.
    """

    fixed: Counts
    broken: Counts
    moves: Counts
    wrong: Counts
    names: Sequence[str]


def count_changes(table: ClassificationTable) -> ChangeCounts:
    """Count the changes in a table with the columns ``before`` and ``change``."""
    import pandas as pd

    change = table.columns["change"]
    name_codes, distinct_names = pd.factorize(table.columns["before"])
    names = list(dict.fromkeys([*table.classes, *(str(name) for name in distinct_names if name)]))
    index_by_name = {name: i for i, name in enumerate(names)}
    earlier = np.array([index_by_name.get(str(name), -1) for name in distinct_names], np.int32)[name_codes]
    has_target = table.target >= 0
    wrong = has_target & ~table.right
    return ChangeCounts(
        _count_by_target(table, change == "fixed"),
        _count_by_target(table, change == "broken"),
        confusion_matrix(earlier[has_target], table.prediction[has_target], len(names)),
        confusion_matrix(earlier[wrong], table.prediction[wrong], len(names)),
        names,
    )


def _count_by_target(table: ClassificationTable, rows: np.ndarray) -> Counts:
    target = table.target[rows]
    return np.bincount(target[target >= 0], minlength=len(table.classes)).astype(np.int64)


def most_changed_classes(counts: ChangeCounts, max_classes: int) -> list[int]:
    """Return the classes with the most fixed and broken rows."""
    order = np.argsort(-(counts.fixed + counts.broken), kind="stable")[:max_classes]
    return [int(index) for index in order if counts.fixed[index] + counts.broken[index]]


def draw_changes(table: ClassificationTable, ax: Axes) -> None:
    """Draw a bar to the right for the fixed rows of each class, and one to the left for the broken rows."""
    counts = count_changes(table)
    order = most_changed_classes(counts, _MAX_CLASSES_IN_PLOT)
    names = [counts.names[index] for index in order]
    named_bars(ax, names, counts.fixed[order], color="tab:green", label="fixed")
    named_bars(ax, names, -counts.broken[order], color="tab:red", label="broken")
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.set_xlabel("samples")
    if order:
        ax.legend()
