"""Whether a confidence of 0.8 is right in eight of ten cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import LEVEL, Floats

BINS = 15
RESAMPLES = 1000


@dataclass(frozen=True)
class Reliability:
    """Bins of equal counts, ordered by confidence, and what they come to.

    For each bin its count, mean confidence and accuracy, and the band in which the accuracy of a calibrated model
    would lie. ``error`` is the expected calibration error: the mean distance of confidence and accuracy, weighted by
    counts; ``chance`` is what it would be at most by chance, if the model were calibrated. ``first`` and ``last`` are
    the lowest and the highest confidence in each bin; equal ones never lie in two bins.
    """

    counts: NDArray[np.int64]
    first: Floats
    last: Floats
    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    error: float
    chance: float
    level: float

    @property
    def is_off(self) -> bool:
        """Whether confidence and accuracy differ by more than chance allows."""
        return self.error > self.chance

    @property
    def overconfident(self) -> bool:
        """Whether confidence lies above accuracy on the whole."""
        return float(np.sum(self.counts * (self.confidence - self.accuracy))) > 0


def reliability(confidence: Floats, right: NDArray[np.bool_], bins: int = BINS, level: float = LEVEL) -> Reliability:
    """Confidence against accuracy, in bins that hold as many rows each as ties allow; there is at least one row.

    Equal counts make each bin worth the same (Nixon et al. 2019, arXiv:1904.01685); the band is that of outcomes drawn
    with the confidences as their chances (Bröcker and Smith 2007, doi:10.1175/WAF993.1), and so is ``chance``.
    """
    order = np.argsort(confidence, kind="stable")
    sure, hits = np.asarray(confidence, np.float64)[order], np.asarray(right, bool)[order]
    bins = max(1, min(bins, len(sure)))
    edges = np.unique(np.searchsorted(sure, sure[np.linspace(0, len(sure), bins + 1).astype(int)[:-1]]))
    edges = np.append(edges, len(sure))
    counts = np.diff(edges)
    mean, accuracy = means(sure, edges), means(hits, edges)
    spread = np.sqrt(means(sure * (1 - sure), edges) / np.maximum(counts, 1))
    drawn = np.clip(mean + spread * np.random.default_rng(0).standard_normal((RESAMPLES, len(counts))), 0, 1)
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    errors = distance(drawn, mean, counts)
    error = float(distance(accuracy[None], mean, counts)[0])
    first, last = sure[edges[:-1]], sure[edges[1:] - 1]
    return Reliability(counts, first, last, mean, accuracy, low, high, error, float(np.quantile(errors, level)), level)


def means(values: NDArray[np.generic], edges: NDArray[np.int64]) -> Floats:
    """The mean of each stretch between edges."""
    sums = np.add.reduceat(values.astype(np.float64), edges[:-1])
    return np.asarray(sums / np.diff(edges))


def distance(accuracy: Floats, confidence: Floats, counts: NDArray[np.int64]) -> Floats:
    """The mean distance of each row of accuracies from the confidences, weighted by counts."""
    return np.asarray((np.abs(accuracy - confidence) * counts).sum(-1) / max(int(counts.sum()), 1))


def brier(probabilities: Floats, target: NDArray[np.int64]) -> float:
    """The mean squared distance of probabilities, rows × classes, from the truth, 0 to 2.

    Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2.
    """
    squares = np.einsum("ij,ij->i", probabilities, probabilities)
    own = probabilities[np.arange(len(target)), target]
    return float(np.mean(squares - 2 * own + 1))
