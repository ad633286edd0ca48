"""Training samples as points, and what they tell of other points: how near they are, and how they are labeled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.neighbors.search import Floats, Metric, nearest

MOST_JUDGED = 5_000  # training samples whose own distances are taken as what is usual


@dataclass(frozen=True, eq=False)
class Near:
    """The nearest training samples of some points, the nearest first.

    ``places`` are rows of the reference, points × k, with their ``distances``. ``farther`` is the share of training
    samples that have their own k-th neighbor nearer than the point has. ``others`` is the share of the k nearest whose
    label is another than the point's, NaN for a point without a label, None where there are no labels.
    """

    places: NDArray[np.int64]
    distances: Floats
    farther: Floats
    others: Floats | None


@dataclass(frozen=True, eq=False)
class Reference:
    """Training samples: what a layer makes of them (rows × features), and their labels, -1 for none."""

    points: Floats
    labels: NDArray[np.int32] | None = None
    metric: Metric = "cosine"
    k: int = 8

    def __post_init__(self) -> None:
        """Refuses what no neighbors can be found in."""
        if not 1 <= self.k < len(self.points):
            raise SetupError(f"k is {self.k}; expected 1 to {len(self.points) - 1} training samples. Pass another k.")

    @cached_property
    def usual(self) -> Floats:
        """The distance of each training sample, or of 5,000 of them, to its own k-th neighbor, rising."""
        count = len(self.points)
        judged = np.arange(count)
        if count > MOST_JUDGED:
            judged = np.random.default_rng(0).choice(count, MOST_JUDGED, replace=False)
        distances, _ = nearest(self.points[judged], self.points, self.k, self.metric, skip=judged)
        return np.sort(distances[:, -1])

    def near(
        self, points: Floats, labels: NDArray[np.int32] | None = None, own: NDArray[np.int64] | None = None
    ) -> Near:
        """What lies near some points; ``own`` are their places among the training samples, -1 for points outside."""
        distances, places = nearest(points, self.points, self.k, self.metric, skip=own)
        farther = np.searchsorted(self.usual, distances[:, -1]) / len(self.usual)
        others = None
        if labels is not None and self.labels is not None:
            found = self.labels[places]
            counted = (found >= 0).sum(1)
            with np.errstate(invalid="ignore"):
                others = ((found != labels[:, None]) & (found >= 0)).sum(1) / counted
            others = np.where((labels >= 0) & (counted > 0), others, np.nan).astype(np.float32)
        return Near(places, distances, farther.astype(np.float32), others)
