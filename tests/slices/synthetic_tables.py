"""Tables with a known error rate in each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nbdebug.predictions import ClassificationTable

Columns = Mapping[str, Any]
LETTERS, PROBABILITIES = list("abcdefg"), [0.3, 0.25, 0.2, 0.1, 0.08, 0.05, 0.02]


def make_table(
    error_rate: Callable[[Columns], Any],
    rows: int = 2000,
    *,
    seed: int = 0,
    numbers: int = 4,
    categories: int = 2,
    correlated: bool = False,
    classes: int = 2,
) -> ClassificationTable:
    """Rows of random columns x0, x1 …, c0, c1 …; each row is wrong with the error rate of its columns."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=rows)
    columns: dict[str, Any] = {}
    for i in range(numbers):
        independent = rng.normal(size=rows)
        columns[f"x{i}"] = np.float32(0.8 * common + 0.6 * independent if correlated else independent)
    for i in range(categories):
        columns[f"c{i}"] = rng.choice(LETTERS, rows, p=PROBABILITIES)
    target = rng.integers(0, classes, rows)
    wrong = rng.random(rows) < error_rate(columns)
    return ClassificationTable.from_arrays(np.where(wrong, (target + 1) % classes, target), target, columns=columns)
