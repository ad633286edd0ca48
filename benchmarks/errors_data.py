"""Random predictions for benchmarks of the error browser."""

from __future__ import annotations

import numpy as np


def random_predictions(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets, predictions with an accuracy of about 90%, and losses."""
    rng = np.random.default_rng(0)
    targets = rng.integers(0, classes, rows).astype(np.int32)
    predictions = np.where(rng.random(rows) < 0.9, targets, rng.integers(0, classes, rows)).astype(np.int32)
    return targets, predictions, rng.exponential(size=rows).astype(np.float32)
