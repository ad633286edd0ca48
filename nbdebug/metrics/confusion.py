"""The confusion matrix: how often which class was taken for which."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
CHUNK = 1 << 18  # rows whose cells are numbered at once: what they need stays in the cache of a processor


def confusion(target: NDArray[Any], prediction: NDArray[Any], classes: int) -> Counts:
    """Counts, classes × classes: rows are the targets, columns the predictions.

    Both are whole numbers from 0 to ``classes`` - 1; rows in which either is negative are not counted.
    """
    cells = classes * classes
    chunk = max(CHUNK, cells)  # a pass over all cells for each chunk must not cost more than the chunk
    found = counted(target, prediction, classes, slice(chunk))
    for start in range(chunk, len(target), chunk):
        found += counted(target, prediction, classes, slice(start, start + chunk))
    return found.reshape(classes, classes)


def counted(target: NDArray[Any], prediction: NDArray[Any], classes: int, rows: slice) -> Counts:
    """How many of some rows each cell has."""
    cells = classes * classes
    return np.asarray(np.bincount(numbered(target, prediction, classes, rows), minlength=cells)[:cells])


def numbered(target: NDArray[Any], prediction: NDArray[Any], classes: int, rows: slice) -> NDArray[Any]:
    """The cell of each row, row by row of the matrix; rows that do not count have one behind the last."""
    a, b = target[rows], prediction[rows]
    cells = classes * classes
    kind: Any = np.int32 if cells < 2**31 else np.int64
    cell = a.astype(kind, copy=False) * kind(classes)
    cell += b.astype(kind, copy=False)
    if len(a) and min(int(a.min()), int(b.min())) < 0:
        cell[(a < 0) | (b < 0)] = cells
    return np.asarray(cell)
