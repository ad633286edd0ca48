"""One number for all classes together."""

from __future__ import annotations

import numpy as np

from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.per_class import per_class


def accuracy(matrix: Counts) -> float:
    """The share of the rows that are right; NaN where there are none."""
    total = int(matrix.sum())
    return float(np.trace(matrix)) / total if total else float("nan")


def balanced_accuracy(matrix: Counts) -> float:
    """The mean recall of the classes that there are."""
    recall = per_class(matrix).recall.value
    return float(np.nanmean(recall)) if np.isfinite(recall).any() else float("nan")


def f1(matrix: Counts, average: str = "macro") -> float:
    """The mean F1 of the classes that occur, each counting the same ("macro") or by its rows ("weighted").

    A class that was never predicted, or never right, counts as 0.
    """
    found = per_class(matrix)
    occurs = (found.support + found.predicted) > 0
    values = np.nan_to_num(found.f1.value)[occurs]
    weights = found.support[occurs] if average == "weighted" else np.ones(len(values))
    return float(np.average(values, weights=weights)) if weights.sum() else float("nan")


def matthews(matrix: Counts) -> float:
    """The correlation of targets and predictions, 0 where one of them is constant.

    Gorodkin 2004, doi:10.1016/j.compbiolchem.2004.09.006.
    """
    support, predicted = matrix.sum(1).astype(float), matrix.sum(0).astype(float)
    right, total = float(np.trace(matrix)), float(matrix.sum())
    both = right * total - predicted @ support
    spread = (total**2 - predicted @ predicted) * (total**2 - support @ support)
    return both / float(np.sqrt(spread)) if spread else 0.0


def kappa(matrix: Counts) -> float:
    """The accuracy beyond what two independent guesses of the same shares would have; NaN where that is all.

    Cohen 1960, doi:10.1177/001316446002000104.
    """
    total = float(matrix.sum())
    if not total:
        return float("nan")
    chance = float(matrix.sum(1) @ matrix.sum(0)) / total**2
    return (accuracy(matrix) - chance) / (1 - chance) if chance < 1 else float("nan")
