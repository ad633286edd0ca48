"""A model beside each baseline: metric by metric, with the interval of the difference on the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.scored import HIGHER, Floats, Scored
from nbdebug.metrics.intervals import LEVEL, wilson
from nbdebug.metrics.paired import flips

RESAMPLES = 1000
Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Versus:
    """One metric of one answerer, with its interval, and by how much the model is better than it on the same rows.

    ``gain`` is above zero where the model is better, whichever way the metric goes; of the model itself it is 0.
    """

    name: str
    metric: str
    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    rows: int

    @property
    def beaten(self) -> bool:
        """Whether the model is better beyond chance."""
        return self.gain_low > 0


def compared(model: Scored, others: Sequence[Scored]) -> Iterator[Versus]:
    """The model, then each of the others, metric by metric; rows are those of the other."""
    weights = resampled(len(model.rows))
    for other in (model, *others):
        places = np.searchsorted(model.rows, other.rows)
        for metric in (one for one in other.scores if one in model.scores):
            yield versus(model, other, metric, places, weights)


def versus(model: Scored, other: Scored, metric: str, places: NDArray[np.int64], weights: Weights) -> Versus:
    """One metric of one of them.

    Shares of right rows have the interval of Wilson, their difference that of paired shares (``nbdebug.metrics``); all
    else that of the bootstrap over rows, which are drawn for both at once (Efron and Tibshirani 1993, chapter 13).
    """
    mine, theirs = model.scores[metric][places], other.scores[metric]
    sign = 1.0 if metric in HIGHER else -1.0
    mine_right, right = model.right, other.right
    if metric == "accuracy" and mine_right is not None and right is not None:
        low, high = (float(one) for one in wilson(right.sum(), len(right)))
        flip = flips(right, mine_right[places])
        gains = (flip.low, flip.high) if other is not model else (0.0, 0.0)
    else:
        low, high = bounds(theirs, weights[:, places])
        gains = bounds(sign * (mine - theirs), weights[:, places])
    gain = float(sign * (mine - theirs).mean())
    return Versus(other.name, metric, float(theirs.mean()), low, high, gain, *gains, len(theirs))


def resampled(rows: int) -> Weights:
    """How often each row is drawn in each of a thousand resamples, always the same."""
    generator = np.random.default_rng(0)
    drawn = (np.bincount(generator.integers(0, rows, rows), minlength=rows) for _ in range(RESAMPLES))
    return np.stack([one.astype(np.float32) for one in drawn])


def bounds(values: Floats, weights: Weights) -> tuple[float, float]:
    """The interval of a mean."""
    means = weights @ values.astype(np.float32) / np.maximum(weights.sum(1), 1)
    low, high = np.quantile(means, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return float(low), float(high)
