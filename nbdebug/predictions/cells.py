"""From a cell of the confusion matrix to its rows, the worst first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.confusion import Counts, numbered
from nbdebug.predictions.extremes import highest
from nbdebug.predictions.huge import worst_of_huge

Rows = NDArray[np.int64]
HELD = 200  # rows of a cell that are put in order at once
HUGE = 1 << 18  # rows: to put the worst of more in order takes longer than a click may


class Cells:
    """The rows of each cell, found without a pass over the table: four bytes a row.

    Rows are sorted by cell once, by counting; those of one cell by how bad they are when they are asked for first, and
    those of the few huge cells at once.
    """

    def __init__(
        self, target: NDArray[Any], prediction: NDArray[Any], classes: int, badness: NDArray[Any] | None = None
    ) -> None:
        """``badness`` orders the rows of a cell, the highest first, NaN last; without it they stay in their order."""
        from scipy.sparse import csr_matrix

        self.classes, self.badness = classes, badness
        cell = numbered(target, prediction, classes, slice(None))
        count, cells = len(cell), classes * classes + 1
        places = np.arange(count + 1, dtype=np.int32)
        # As a sparse matrix with one entry a row its transpose is sorted by cell, which is done by counting.
        sparse = csr_matrix((np.ones(count, np.bool_), cell, places), shape=(count, cells)).tocsc()
        self.order, self.starts = sparse.indices, sparse.indptr
        huge = [divmod(one, classes) for one in np.flatnonzero(np.diff(self.starts)[:-1] > HUGE).tolist()]
        self.known: dict[tuple[int, int], Rows] = {}
        if huge and badness is not None:
            rows = {i * classes + j: self.behind(i, j) for i, j in huge}
            found = worst_of_huge(rows, cell, cells, badness, HELD)
            self.known = {divmod(one, classes): worst for one, worst in found.items()}

    @property
    def matrix(self) -> Counts:
        """The confusion matrix."""
        return np.asarray(np.diff(self.starts)[:-1].reshape(self.classes, self.classes), np.int64)

    def rows(self, target: int, prediction: int, most: int = 50) -> Rows:
        """The worst rows of a cell, at most so many, the worst first."""
        found = self.known.get((target, prediction))
        if found is None or len(found) < min(most, self.count(target, prediction)):
            found = self.known[target, prediction] = self.worst(target, prediction, max(2 * most, HELD))
        return found[:most]

    def count(self, target: int, prediction: int) -> int:
        """How many rows a cell has."""
        return len(self.behind(target, prediction))

    def all(self, target: int, prediction: int) -> Rows:
        """All rows of a cell, in the order of the table."""
        return self.behind(target, prediction).astype(np.int64)

    def behind(self, target: int, prediction: int) -> NDArray[np.int32]:
        """The same, without a copy."""
        cell = target * self.classes + prediction
        return np.asarray(self.order[self.starts[cell] : self.starts[cell + 1]])

    def worst(self, target: int, prediction: int, most: int) -> Rows:
        """The worst rows of a cell, found anew."""
        rows = self.behind(target, prediction)
        if self.badness is None:
            return rows[:most].astype(np.int64)
        return rows[highest(self.badness[rows], most)].astype(np.int64)
