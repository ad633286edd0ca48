"""What one feature alone tells of the target: a small tree on it, judged on samples that it was not grown on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDS, LEAVES, LEAST = 5, 32, 4


def skill_alone(values: NDArray[Any], target: NDArray[Any]) -> float:
    """The share of what a constant answer gets wrong that a tree of one feature gets right, out of sample.

    Of classes by accuracy against the commonest one, of numbers R². NaN for fewer than 20 samples, or one class.
    Breiman et al. 1984, Classification and Regression Trees.
    """
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if len(target) < 4 * FOLDS or np.ptp(target) == 0:
        return float("nan")
    classes = target.dtype.kind in "iu"
    grown = (DecisionTreeClassifier if classes else DecisionTreeRegressor)(
        max_leaf_nodes=LEAVES, min_samples_leaf=LEAST, random_state=0
    )
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    answers = cross_val_predict(grown, np.asarray(values).reshape(len(target), -1), target, cv=folds)
    if not classes:
        return float(1 - np.mean((target - answers) ** 2) / np.var(target))
    constant = np.bincount(target - target.min()).max() / len(target)
    return float((np.mean(answers == target) - constant) / (1 - constant))
