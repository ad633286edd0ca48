"""Simple learners on the inputs themselves: a linear one, and the nearest training rows."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from nbdebug.baselines.features import Matrix

STRENGTH = 0.1  # inverse of the penalty on standardized columns
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
ROUND, ROUNDS = 25, 12  # iterations at a time, and how often
MOST_CLASSES = 100  # past these a closed form stands in for logistic regression
NEAREST, MOST_OPERATIONS = 5, 10_000_000_000


def linear_chances(x: Matrix, y: Any, others: Matrix, classes: int, until: float) -> tuple[Any, Any, bool]:
    """Labels and chances, rows × classes, by logistic regression, and whether there was time for it to converge.

    Of more than a hundred classes labels only, by ridge regression onto them.
    """
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    if len(np.unique(y)) > MOST_CLASSES:
        return RidgeClassifier(alpha=10.0).fit(x, y).predict(others), None, True
    model = LogisticRegression(C=STRENGTH, max_iter=ROUND, warm_start=True)
    done = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(ROUNDS):
            model.fit(x, y)
            done = bool((model.n_iter_ < ROUND).all())
            if done or time.perf_counter() > until:
                break
    chances = np.zeros((len(others), classes))
    chances[:, model.classes_] = model.predict_proba(others)
    return chances.argmax(1), chances, done


def linear_values(x: Matrix, y: Any, others: Matrix) -> Any:
    """Numbers by ridge regression, with the penalty that predicts left-out rows best."""
    from sklearn.linear_model import RidgeCV

    return RidgeCV(alphas=PENALTIES).fit(x, y).predict(others)


def is_cheap(x: Matrix, others: Matrix) -> bool:
    """Whether all distances are computed in about a second."""
    return bool(2 * len(x) * len(others) * x.shape[1] <= MOST_OPERATIONS)


def nearest_labels(x: Matrix, y: Any, others: Matrix) -> Any:
    """The commonest label of the five nearest training rows."""
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(min(NEAREST, len(x)), algorithm="brute").fit(x, y).predict(others)


def nearest_values(x: Matrix, y: Any, others: Matrix) -> Any:
    """The mean target of the five nearest training rows."""
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(min(NEAREST, len(x)), algorithm="brute").fit(x, y).predict(others)
