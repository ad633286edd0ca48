"""Relations between the columns of a table within the classes: a noisy copy of the target has none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
UNRELATED_LEVEL, _MIN_RELATED = 0.01, 0.5


class ClassRankRelations:
    """Rank correlations within the classes ``y`` to the columns of ``x`` at the positions ``compared``.

    A copy of the target with random noise is unrelated to every other column once the class is known, while a real
    feature shares causes with some of them. The columns must be related to each other for this to tell anything.
    """

    def __init__(self, x: _Floats, y: _Floats, compared: Sequence[int]) -> None:
        self._codes = np.unique(y, return_inverse=True)[1]
        ranks = [self._class_ranks(x[:, column]) for column in compared]
        self._compared = np.stack(ranks, 1) if ranks else np.zeros((len(y), 0))

    @property
    def is_telling(self) -> bool:
        """True if at least half of the compared columns are related to another one within the classes."""
        count = self._compared.shape[1]
        if count < 2:
            return False
        correlations = self._compared.T @ self._compared
        np.fill_diagonal(correlations, 0)
        p = self._adjusted_p(np.abs(correlations).max(0), count - 1)
        return bool((p < UNRELATED_LEVEL).mean() >= _MIN_RELATED)

    def smallest_p(self, column: _Floats) -> float:
        """Return the smallest p-value of the relations of a column within the classes, corrected for their number.

        By the normal limit of Spearman's correlation, with ranks in each class, and the correction of Bonferroni.
        """
        correlation = float(np.abs(self._class_ranks(column) @ self._compared).max(initial=0.0))
        return float(self._adjusted_p(np.array([correlation]), self._compared.shape[1])[0])

    def _class_ranks(self, column: _Floats) -> _Floats:
        """Return the centered ranks of a column in each class, as a vector of length 1; zeros if it is constant."""
        from scipy.stats import rankdata

        ranks = np.zeros(len(column))
        for code in range(int(self._codes.max()) + 1):
            is_inside = self._codes == code
            own = rankdata(column[is_inside])
            ranks[is_inside] = (own - own.mean()) / len(own)
        length = np.sqrt(float(ranks @ ranks))
        return ranks / length if length > 0 else ranks

    def _adjusted_p(self, correlations: _Floats, comparisons: int) -> _Floats:
        from scipy.stats import norm

        freedom = max(len(self._codes) - int(self._codes.max()) - 2, 1)
        p: _Floats = 2 * norm.sf(correlations * np.sqrt(freedom)) * comparisons
        return np.minimum(p, 1.0)
