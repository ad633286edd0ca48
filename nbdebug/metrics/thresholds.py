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
    """Each chance that occurs as a threshold, ascending, and the usual; rows with as much are taken for the class.

    ``hits`` are rows of the class that are taken for it, ``alarms`` others that are; ``of`` and ``others`` count all
    rows of both kinds. ``below`` is the highest chance under each threshold, NaN where there is none.
    """

    at: Floats
    below: Floats
    hits: Counts
    alarms: Counts
    of: int
    others: int
    usual: float = USUAL

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
        """The places of at most so many thresholds for a page: even by value and rank, the usual, the best by F1."""
        count = len(self.at)
        if count <= most:
            return np.arange(count)
        ranks = np.linspace(0, count - 1, most // 2 - 2)
        values = np.searchsorted(self.at, np.linspace(self.at[0], self.at[-1], most // 2))
        best = [int(np.nanargmax(self.f1))] if np.isfinite(self.f1).any() else []
        usual = int(np.searchsorted(self.at, self.usual))
        return np.unique(np.concatenate([ranks, values, best, [usual]]).astype(np.int64).clip(0, count - 1))


def thresholds(chance: NDArray[Any], target: NDArray[Any], usual: float | None = USUAL) -> Thresholds:
    """What each threshold comes to, the usual one among them; ``target`` is true or 1 where a row is of the class.

    Chances are finite.
    """
    target, chance = np.asarray(target, bool), np.asarray(chance)
    order = np.argsort(chance, kind="stable")
    sure, own = chance[order].astype(np.float64), target[order]
    first = np.flatnonzero(np.concatenate([np.ones(min(len(sure), 1), bool), np.diff(sure) > 0]))
    at = sure[first]
    if usual is not None and usual not in at:
        place = np.searchsorted(at, usual)
        first, at = np.insert(first, place, np.searchsorted(sure, usual)), np.insert(at, place, usual)
    own_below = np.concatenate([[0], np.cumsum(own)])[first]
    of, others = int(own.sum()), int((~own).sum())
    below = np.append(np.nan, sure)[first]
    alarms = others - (first - own_below)
    return Thresholds(at, below, of - own_below, alarms, of, others, USUAL if usual is None else usual)
