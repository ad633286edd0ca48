"""The confusion matrix: how often which class was taken for which."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
CHUNK = 1 << 22  # rows whose cells are numbered at once: 32 MiB


def confusion(target: NDArray[Any], prediction: NDArray[Any], classes: int) -> Counts:
    """Counts, classes × classes: rows are the targets, columns the predictions.

    Both are whole numbers from 0 to ``classes`` - 1; rows in which either is negative are not counted.
    """
    cells = classes * classes
    found = np.zeros(cells, np.int64)
    for start in range(0, len(target), CHUNK):
        cell = numbered(target, prediction, classes, slice(start, start + CHUNK))
        found += np.bincount(cell, minlength=cells)[:cells]
    return found.reshape(classes, classes)


def numbered(target: NDArray[Any], prediction: NDArray[Any], classes: int, rows: slice) -> NDArray[np.int64]:
    """The cell of each row, row by row of the matrix; rows that do not count have one behind the last."""
    a, b = target[rows], prediction[rows]
    cell = a.astype(np.int64) * classes
    cell += b
    if len(a) and (int(a.min()) < 0 or int(b.min()) < 0):
        cell[(a < 0) | (b < 0)] = classes * classes
    return cell
