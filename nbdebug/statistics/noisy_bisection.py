"""Bisection under noise: the posterior of the first bad version, and the version to run next.

Version k has the first k of n changes, and one of the changes lowers the score. The score of version k with seed s is
a mean, plus an effect of the seed, minus a shift if k is bad, which may vary with the seed, plus noise. All but the
position of the change are integrated out, the mean exactly and the others on a grid. The next run is that of the
version at the median of the posterior: probabilistic bisection (Horstein 1963, doi:10.1109/TIT.1963.1057832; with noise
of unknown size: Waeber, Frazier and Henderson 2013, doi:10.1137/120861898).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from nbdebug.statistics.intervals import Floats

# The shift in standard deviations of the scores of one version. Smaller ones take too many runs to be located.
_SHIFTS = np.array([0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 30.0, 300.0])
_SHARES_OF_SEED = np.array([0.0, 0.5, 0.9, 0.99, 0.9999])  # of the variance of the scores of one version
_VARIATIONS = np.array([0.0, 0.3, 2.0])  # of the shift between seeds, relative to that variance
_SCALES = np.geomspace(3e-4, 1.5, 24)  # standard deviations of one version, relative to the range of all scores
_CONFIRMED_SEEDS = 2
_SMALLEST_RANGE = 1e-9


@dataclass
class NoisyBisection:
    """The runs so far of versions 0 (good) to ``count`` (bad), and the posterior of the change that is at fault."""

    count: int
    versions: list[int] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    _cache: tuple[int, Floats] = field(default=(0, np.zeros(0)), repr=False)

    def add(self, version: int, seed: int, score: float) -> None:
        """Add the score of a run, of which a higher one is better."""
        self.versions.append(version)
        self.seeds.append(seed)
        self.scores.append(score)

    def next_run(self) -> tuple[int, int]:
        """Return the version to run next and its seed: first both ends, then the median of the posterior.

        The seed is the first one that this version has not had, so that runs of different versions can be compared.
        Where a single change is left, both of its sides and both ends are run with a second seed.
        """
        if len(self.scores) < 2:
            return (0, self.count)[len(self.scores)], 0
        if unconfirmed := self._unconfirmed():
            return unconfirmed[0]
        cumulative = np.cumsum(self.posterior())
        middle = int(np.argmin(np.abs(cumulative - 0.5))) + 1  # P(first bad version <= k) of k = 1 ... n
        used = Counter(zip(self.versions, self.seeds, strict=True))
        seed = next(seed for seed in range(len(self.scores) + 1) if not used[middle, seed])
        return middle, seed

    def posterior(self) -> Floats:
        """Return the probability of each change, in their order, to be the one that lowers the score."""
        if len(self.scores) < 2:
            return np.full(self.count, 1 / self.count)
        if self._cache[0] != len(self.scores):
            models = product(_SHARES_OF_SEED, _VARIATIONS)
            log_likelihood = np.stack([self._log_likelihood(share, variation) for share, variation in models])
            # models x scales x shifts x changes
            weights = np.exp(log_likelihood - log_likelihood.max()).sum((0, 1, 2))
            self._cache = (len(self.scores), np.asarray(weights / weights.sum()))
        return self._cache[1]

    def candidates(self, level: float = 0.95) -> tuple[int, ...]:
        """Return the fewest changes, by their index from 0, that hold a share ``level`` of the posterior."""
        posterior = self.posterior()
        order = np.argsort(-posterior, kind="stable")
        count = int(np.searchsorted(np.cumsum(posterior[order]), level)) + 1
        return tuple(sorted(int(index) for index in order[:count]))

    @property
    def located(self) -> int | None:
        """The change that is at fault, by its index from 0, if it alone is left with two seeds; else None."""
        left = self.candidates()
        return left[0] if len(left) == 1 and not self._unconfirmed() else None

    def _unconfirmed(self) -> list[tuple[int, int]]:
        """Return the runs of the only change left that are missing for two seeds; [] while several are left.

        A single seed may jump at a change that only draws other random numbers.
        """
        left = self.candidates()
        if len(left) > 1:
            return []
        run = set(zip(self.versions, self.seeds, strict=True))
        needed = (
            (version, seed) for seed in range(_CONFIRMED_SEEDS) for version in (left[0], left[0] + 1, 0, self.count)
        )
        return [item for item in dict.fromkeys(needed) if item not in run]

    def _log_likelihood(self, share: float, variation: float) -> Floats:
        """Return the log-likelihood of each scale, shift and change.

        The seed makes up a ``share`` of the variance of one version, and the shift varies between seeds by
        ``variation`` times that variance.
        """
        y, versions, seeds = np.array(self.scores), np.array(self.versions), np.array(self.seeds)
        size = max(float(np.ptp(y)), _SMALLEST_RANGE)
        is_bad = (versions >= np.arange(1, self.count + 1)[:, None]).astype(np.float64)  # changes x runs
        same_seed = (seeds[:, None] == seeds).astype(np.float64)
        covariance = share * same_seed + (1 - share) * np.eye(len(y))
        covariance = covariance + variation * same_seed * is_bad[:, :, None] * is_bad[:, None, :]
        factor = np.linalg.cholesky(covariance)
        ones, scores = np.ones_like(is_bad), np.broadcast_to(y / size, is_bad.shape)
        mean, score, bad = np.moveaxis(np.linalg.solve(factor, np.stack([ones, scores, is_bad], 2)), 2, 0)
        weight = (mean**2).sum(1, keepdims=True)
        score = score - mean * (mean * score).sum(1, keepdims=True) / weight
        bad = bad - mean * (mean * bad).sum(1, keepdims=True) / weight
        squares, products, lengths = (score**2).sum(1), (score * bad).sum(1), (bad**2).sum(1)
        scales, shifts = _SCALES[:, None, None], _SHIFTS[None, :, None]
        quadratic = squares / scales**2 + 2 * shifts * products / scales + shifts**2 * lengths
        determinant = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1) + 0.5 * np.log(weight[:, 0])
        return np.asarray(-0.5 * quadratic - (len(y) - 1) * np.log(scales) - determinant)
