"""From a cell of the confusion matrix to its rows, the worst first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.confusion import Counts, numbered

Rows = NDArray[np.int64]


class Cells:
    """The rows of each cell, found without a pass over the table: four bytes a row.

    Rows are sorted by cell once, by counting; those of one cell by how bad they are when they are asked for first.
    """

    def __init__(self, target: NDArray[Any], prediction: NDArray[Any], classes: int, badness: NDArray[Any]) -> None:
        """``badness`` orders the rows of a cell, the highest first; NaN comes last."""
        from scipy.sparse import csr_matrix

        self.classes, self.badness = classes, badness
        cell = numbered(target, prediction, classes, slice(None)).astype(np.int32)
        count = len(cell)
        places = np.arange(count + 1, dtype=np.int32)
        # As a sparse matrix with one entry a row its transpose is sorted by cell, which is done by counting.
        sparse = csr_matrix((np.ones(count, np.bool_), cell, places), shape=(count, classes * classes + 1)).tocsc()
        self.order, self.starts = sparse.indices, sparse.indptr
        self.known: dict[tuple[int, int], Rows] = {}

    @property
    def matrix(self) -> Counts:
        """The confusion matrix."""
        return np.asarray(np.diff(self.starts)[:-1].reshape(self.classes, self.classes), np.int64)

    def rows(self, target: int, prediction: int, most: int = 50) -> Rows:
        """The worst rows of a cell, at most so many, the worst first."""
        key = target, prediction
        if key not in self.known or (len(self.known[key]) < most and len(self.known[key]) < self.count(*key)):
            self.known[key] = self.worst(*key, max(most, 200))
        return self.known[key][:most]

    def count(self, target: int, prediction: int) -> int:
        """How many rows a cell has."""
        cell = target * self.classes + prediction
        return int(self.starts[cell + 1] - self.starts[cell])

    def all(self, target: int, prediction: int) -> Rows:
        """All rows of a cell, in the order of the table."""
        cell = target * self.classes + prediction
        return np.asarray(self.order[self.starts[cell] : self.starts[cell + 1]], np.int64)

    def worst(self, target: int, prediction: int, most: int) -> Rows:
        """The worst rows of a cell, found anew."""
        cell = target * self.classes + prediction
        rows = self.order[self.starts[cell] : self.starts[cell + 1]]
        bad = np.nan_to_num(self.badness[rows], nan=-np.inf)
        if len(rows) > most:
            kept = np.argpartition(bad, len(rows) - most)[-most:]
            rows, bad = rows[kept], bad[kept]
        return np.asarray(rows[np.lexsort((rows, -bad))], np.int64)
