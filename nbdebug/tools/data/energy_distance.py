"""The energy distance of two sets of vectors, such as embeddings, with a permutation test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.baselines.input_features import Matrix
from nbdebug.statistics.intervals import normal_quantile
from nbdebug.statistics.power import POWER

_LEVEL, _PERMUTATIONS, _MIN_EFFECT = 0.001, 999, 0.001
_MAX_ROWS, _MIN_ROWS = 1000, 20
_POWER_QUANTILE = normal_quantile(2 * POWER - 1)


@dataclass(frozen=True)
class EnergyDistance:
    """The energy coefficient of two sets of vectors: 0 for equal distributions, 1 for points that are far apart.

    ``p`` is that of 999 permutations of the samples. A coefficient of ``detectable`` would have been shown with 90%
    probability. ``source`` names the vectors, which have ``dimension`` values for each of ``rows`` samples.
    """

    effect: float
    p: float
    detectable: float
    rows: tuple[int, int]
    dimension: int
    source: str

    @property
    def is_shifted(self) -> bool:
        """True if no permutation has as large a distance, and the effect is not negligible."""
        return self.p <= _LEVEL and self.effect >= _MIN_EFFECT

    def __str__(self) -> str:
        """The coefficient with its p-value."""
        return (
            f"energy coefficient {max(self.effect, 0):.2g} of {self.dimension:,} {self.source} "
            f"(p {self.p:.2g}, {sum(self.rows):,} samples)"
        )


def measure_energy_distance(first: Matrix, second: Matrix, source: str) -> EnergyDistance | None:
    """Compare up to 1,000 distinct vectors of each set; None for fewer than 20.

    The coefficient is (2 E|x - y| - E|x - x'| - E|y - y'|) / 2 E|x - y|, with means over different samples (Székely and
    Rizzo 2013, doi:10.1016/j.jspi.2013.03.018). Each column is replaced by its ranks, so that neither units nor
    outliers matter, and missing values are like any other. If one of d independent normal columns is shifted by s
    standard deviations, it is about s² / 4d.
    """
    sides = [np.unique(side, axis=0) for side in (first, second)]
    generator = np.random.default_rng(0)
    sides = [generator.permutation(side)[:_MAX_ROWS] for side in sides]
    sizes = len(sides[0]), len(sides[1])
    ranks = _ranked_columns(np.vstack(sides))
    if min(sizes) < _MIN_ROWS or not ranks.shape[1]:
        return None
    distances = torch.cdist(torch.from_numpy(ranks), torch.from_numpy(ranks)).numpy()
    is_first = np.zeros((sum(sizes), _PERMUTATIONS + 1), np.float32)
    is_first[: sizes[0], 0] = 1
    for column in range(1, _PERMUTATIONS + 1):
        is_first[generator.permutation(sum(sizes))[: sizes[0]], column] = 1
    coefficients = _energy_coefficients(distances, is_first)
    own, permuted = float(coefficients[0]), coefficients[1:]
    p = (1 + int((permuted >= own).sum())) / (_PERMUTATIONS + 1)
    detectable = max(_detectable_effect(float(permuted.max()), sizes, ranks.shape[1]), _MIN_EFFECT)
    return EnergyDistance(own, p, detectable, sizes, ranks.shape[1], source)


def _detectable_effect(limit: float, sizes: tuple[int, int], dimension: int) -> float:
    """Return the coefficient that exceeds a limit with 90% probability, if one normal column of d is shifted.

    The coefficient s² / 4d then has a standard error of s / 2d times that of the shift, sqrt(1/m + 1/n), so that its
    square root is the solution of a quadratic equation.
    """
    step = _POWER_QUANTILE * ((1 / sizes[0] + 1 / sizes[1]) / dimension) ** 0.5
    return float(((step + (step**2 + 4 * max(limit, 0.0)) ** 0.5) / 2) ** 2)


def _ranked_columns(rows: Matrix) -> Matrix:
    """Return the mean rank of each value in its column, from 0 to 1, without constant columns."""
    from scipy.stats import rankdata

    varying = rows[:, np.ptp(rows, axis=0) > 0]
    if not varying.size:
        return np.zeros((len(rows), 0), np.float32)
    ranks: Matrix = ((rankdata(varying, axis=0) - 0.5) / len(rows)).astype(np.float32)
    return ranks


def _energy_coefficients(distances: Matrix, is_first: Matrix) -> NDArray[np.float64]:
    """Return the coefficient of each division of the rows in two, a column of ``is_first`` each."""
    count = is_first.sum(0, dtype=np.float64)
    others = len(is_first) - count
    sums = distances @ is_first
    totals = distances.sum(dtype=np.float64)
    own = (is_first * sums).sum(0, dtype=np.float64)
    across = sums.sum(0, dtype=np.float64) - own
    rest = totals - own - 2 * across
    mean = across / (count * others)
    result: NDArray[np.float64] = (
        2 * mean - own / (count * (count - 1)) - rest / (others * (others - 1))
    ) / np.maximum(2 * mean, 1e-12)
    return result
