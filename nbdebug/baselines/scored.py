"""What an answer to every row is worth, row by row, so that two answers can be compared in pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
MODEL = "model"  # its name among the answerers
HIGHER = frozenset({"accuracy", "balanced accuracy"})  # of all other metrics less is better
LARGEST = 100.0  # the loss of an answer that took the truth for impossible, about that of the smallest float32


@dataclass(frozen=True)
class Scored:
    """One answerer: ``scores`` maps a metric to a number for each of ``rows``, whose mean is the metric.

    ``said`` is the answerer in words. ``right`` says which rows it gets right, None where that is no question.
    """

    name: str
    said: str
    rows: Rows
    scores: dict[str, Floats]
    right: NDArray[np.bool_] | None = None

    def value(self, metric: str) -> float:
        """The metric."""
        return float(self.scores[metric].mean())


def of_labels(name: str, said: str, rows: Rows, target: Any, label: Any, loss: Floats | None = None) -> Scored:
    """An answerer that names a class for each row; ``loss`` is the cross-entropy of each, where it gives chances."""
    right = np.asarray(label == target)
    return Scored(name, said, rows, class_scores(right.astype(np.float64), target, loss), right)


def class_scores(hits: Floats, target: Any, loss: Floats | None = None) -> dict[str, Floats]:
    """Accuracy, balanced accuracy and loss row by row; ``hits`` are the chances with which each row is right."""
    counts = np.bincount(target)
    weight = len(target) / np.count_nonzero(counts) / counts[target]
    scores = {"accuracy": hits, "balanced accuracy": hits * weight}
    return scores if loss is None else {**scores, "log loss": np.nan_to_num(loss, posinf=LARGEST).clip(max=LARGEST)}


def of_values(name: str, said: str, rows: Rows, target: Floats, value: Any) -> Scored:
    """An answerer that names a number for each row."""
    off = target - value
    return Scored(name, said, rows, {"mean squared error": off**2, "mean absolute error": np.abs(off)})


def losses(chances: Floats, target: Any) -> Floats:
    """The cross-entropy of each row of chances, rows × classes."""
    own = np.asarray(chances, np.float64)[np.arange(len(target)), target]
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(own))
