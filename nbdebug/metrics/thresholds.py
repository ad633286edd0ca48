"""What each threshold on a chance would come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import Floats

if TYPE_CHECKING:
    import pandas

Counts = NDArray[np.int64]
USUAL = 0.5


@dataclass(frozen=True)
class Thresholds:
    """Each chance that occurs as a threshold, ascending, and 0.5; rows with as much or more are taken for the class.

    ``hits`` are rows of the class that are taken for it, ``alarms`` others that are; ``of`` and ``others`` count all
    rows of both kinds. ``below`` is the highest chance under each threshold, NaN where there is none.
    """

    at: Floats
    below: Floats
    hits: Counts
    alarms: Counts
    of: int
    others: int

    @property
    def precision(self) -> Floats:
        """The share of the class among those that are taken for it; NaN where nobody is."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.hits / (self.hits + self.alarms))

    @property
    def recall(self) -> Floats:
        """The share of the class that is taken for it; NaN where there is nobody of the class."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.hits / np.float64(self.of))

    @property
    def f1(self) -> Floats:
        """The harmonic mean of precision and recall."""
        with np.errstate(invalid="ignore"):
            return np.asarray(2 * self.hits / (self.hits + self.alarms + np.float64(self.of)))

    def cost(self, alarm: float = 1.0, miss: float = 1.0) -> Floats:
        """What all errors together cost, if a false alarm and a miss cost so much each."""
        return np.asarray(alarm * self.alarms + miss * (self.of - self.hits), np.float64)

    def to_frame(self, alarm: float = 1.0, miss: float = 1.0) -> pandas.DataFrame:
        """One row a threshold."""
        import pandas as pd

        counts = {"tp": self.hits, "fp": self.alarms, "fn": self.of - self.hits, "tn": self.others - self.alarms}
        shares = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return pd.DataFrame({"threshold": self.at, **counts, **shares, "cost": self.cost(alarm, miss)})

    def some(self, most: int = 200) -> Counts:
        """The places of at most so many thresholds for a page: even by value and by rank, 0.5, and the best by F1."""
        count = len(self.at)
        if count <= most:
            return np.arange(count)
        ranks = np.linspace(0, count - 1, most // 2 - 2)
        values = np.searchsorted(self.at, np.linspace(self.at[0], self.at[-1], most // 2))
        best = [int(np.nanargmax(self.f1))] if np.isfinite(self.f1).any() else []
        usual = int(np.searchsorted(self.at, USUAL))
        return np.unique(np.concatenate([ranks, values, best, [usual]]).astype(np.int64).clip(0, count - 1))


def thresholds(chance: NDArray[Any], target: NDArray[Any]) -> Thresholds:
    """What each threshold comes to; ``target`` is true or 1 where a row is of the class. Chances are finite."""
    target = np.asarray(target, bool)
    order = np.argsort(chance, kind="stable")
    sure, own = np.asarray(chance, np.float64)[order], target[order]
    at = np.unique(np.append(sure, USUAL))
    first = np.searchsorted(sure, at)
    own_below = np.concatenate([[0], np.cumsum(own)])[first]
    of, others = int(own.sum()), int((~own).sum())
    below = np.where(first > 0, sure[np.maximum(first - 1, 0)], np.nan) if len(sure) else np.full(len(at), np.nan)
    return Thresholds(at, below, of - own_below, others - (first - own_below), of, others)
