"""How well each class is told from the others, or each label from its absence: one shape for both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.intervals import wilson
from nbdebug.metrics.overall import accuracy, balanced_accuracy, f1, kappa, matthews
from nbdebug.metrics.per_class import PerClass, per_class
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.disk.stored import Stored
from nbdebug.predictions.multilabel import MultiLabel
from nbdebug.predictions.table import Table

Triple = tuple[float, float, float]
NONE = float("nan")


@dataclass(frozen=True)
class Told:
    """The shares of each class or label, how many rows were ``hits``, and what all together come to.

    ``overall`` maps a name to a value and the ends of its interval, NaN where there is none. ``apart`` says that each
    row has several labels, so that no class is taken for another.
    """

    names: tuple[str, ...]
    shares: PerClass
    hits: Counts
    overall: dict[str, Triple]
    apart: bool


def told(table: Table) -> Told | None:
    """The same of a table of classes or of labels; None of others."""
    if isinstance(table, (Predictions, Stored)):
        matrix = table.matrix
        return Told(table.classes, per_class(matrix), np.diag(matrix), of_classes(matrix), apart=False)
    if not isinstance(table, MultiLabel):
        return None
    overall = {name.replace("_", " "): (one.value, one.low, one.high) for name, one in table.metrics.items()}
    return Told(table.labels, table.per_label, table.counts[:, 0], overall, apart=True)


def of_classes(matrix: Counts) -> dict[str, Triple]:
    """What all classes together come to; accuracy with its interval."""
    low, high = wilson(int(np.trace(matrix)), int(matrix.sum()))
    rest = {
        "balanced accuracy": balanced_accuracy(matrix),
        "macro F1": f1(matrix),
        "weighted F1": f1(matrix, "weighted"),
        "Matthews correlation": matthews(matrix),
        "Cohen's kappa": kappa(matrix),
    }
    alone = {name: (value, NONE, NONE) for name, value in rest.items()}
    return {"accuracy": (accuracy(matrix), float(low), float(high)), **alone}
