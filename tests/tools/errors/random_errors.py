"""Results of the error browser for random predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.result import Errors

CLASS_NAMES = ("ant", "bee", "cat")


def random_scores(rows: int = 400, classes: int = 3, margin: float = 1.2) -> tuple[np.ndarray, np.ndarray]:
    """Logits in which the true class leads by ``margin`` on average, and targets."""
    random = np.random.default_rng(0)
    target = random.integers(0, classes, rows)
    logits = random.normal(size=(rows, classes)).astype(np.float32)
    logits[np.arange(rows), target] += margin
    return logits, target


def make_errors(predictions: Any, target: Any, **options: Any) -> Errors:
    """Build the errors of labels or scores, without samples or a model."""
    return Errors(ClassificationTable.from_arrays(predictions, target, **options), "test predictions")
