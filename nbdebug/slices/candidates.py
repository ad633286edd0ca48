"""All slices of one and of two features, and how much worse each is than the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import Floats
from nbdebug.slices.condition import Condition
from nbdebug.slices.features import Feature
from nbdebug.slices.statistics import chance, exact, excess

CHUNK = 1 << 14
NOTABLE = 2.0  # standard errors under which a slice is counted as tried and not kept
SIMPLER = 0.9
Part = tuple[Feature, int, int]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A slice: levels of one or two features, with ``z`` standard errors above the rest and the chance ``p`` of that.

    Of two features, ``p`` is the largest of three: against all other rows, and against those of each feature alone.
    """

    parts: tuple[Part, ...]
    z: float
    p: float

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What holds for its rows."""
        return tuple(one for feature, *ends in self.parts if (one := feature.condition(*ends)) is not None)

    @property
    def has_target(self) -> bool:
        """Whether the class of the target is one of its features."""
        return any(feature.is_target for feature, *_ in self.parts)

    @property
    def rank(self) -> tuple[bool, float]:
        """Where it comes among others: what is known beforehand first, then by ``z``, of which two features lose some.

        One feature that is cut anew in place of a second one would be told by both, and is told better by itself.
        """
        return self.has_target, -self.z * (1 if len(self.parts) == 1 else SIMPLER)

    def mask(self) -> NDArray[np.bool_]:
        """Its rows."""
        found = np.ones(len(self.parts[0][0].codes), bool)
        for feature, first, last in self.parts:
            found &= (feature.codes >= first) & (feature.codes <= last)
        return found


@dataclass(frozen=True, eq=False)
class Badness:
    """How bad each row is, for a test: 1 for wrong and 0 for right, or the rank of its loss."""

    values: Floats
    exact: bool

    @property
    def whole(self) -> tuple[int, float, float]:
        """Rows, their sum and their variance."""
        return len(self.values), float(self.values.sum()), float(self.values.var()) if len(self.values) else 0.0

    def part(self, mask: NDArray[np.bool_]) -> Badness:
        """That of some rows."""
        return Badness(self.values[mask], self.exact)

    def p(self, z: Floats, n: Floats, k: Floats, rows: Floats, total: Floats) -> Floats:
        """The chance of what is ``z`` standard errors above: exact for shares, of the normal distribution for ranks."""
        return exact(n, k, rows, total) if self.exact else chance(z)


def runs(feature: Feature) -> list[tuple[int, int]]:
    """Neighboring levels put together in all ways but for all of them, and each level that stands alone."""
    count = feature.ordered
    pairs = [(i, j) for i in range(count) for j in range(i, count) if j - i + 1 < count]
    return pairs + [(i, i) for i in range(count, len(feature.levels)) if feature.levels[i] is not None]


def singles(features: Sequence[Feature], bad: Badness, fewest: int) -> tuple[list[Candidate], int]:
    """The notable slices of one feature, and how many were tried."""
    found, tried = list[Candidate](), 0
    rows, total, spread = bad.whole
    for feature in features:
        ends = np.array(runs(feature), int).reshape(-1, 2)
        n, k = (summed(feature, weights, ends) for weights in (None, bad.values))
        fits = (n >= fewest) & (n <= rows / 2)
        tried += int(fits.sum())
        z = np.where(fits, excess(n, k, rows, total, spread), -np.inf)
        kept = np.flatnonzero(z > NOTABLE)
        p = bad.p(z[kept], n[kept], k[kept], np.full(len(kept), rows), np.full(len(kept), total))
        found += [Candidate(((feature, *ends[i].tolist()),), z[i], one) for i, one in zip(kept, p, strict=True)]
    return found, tried


def summed(feature: Feature, weights: Floats | None, ends: NDArray[np.int64]) -> Floats:
    """The sum of each run of levels."""
    sums = np.cumsum([0, *np.bincount(feature.codes, weights, len(feature.levels))])
    return np.asarray(sums[ends[:, 1] + 1] - sums[ends[:, 0]], np.float64)


def pairs(features: Sequence[Feature], bad: Badness, fewest: int) -> tuple[list[Candidate], int]:
    """The notable slices of two features, and how many were tried."""
    parts = [(i, *ends) for i, feature in enumerate(features) for ends in runs(feature)]
    if not parts:
        return [], 0
    owner = np.array([i for i, *_ in parts])
    n, k, kk = products(features, parts, bad)
    rows, total, spread = bad.whole
    fits = (owner[:, None] < owner) & (n >= fewest) & (n <= rows / 2)
    z = np.where(fits, excess(n, k, rows, total, spread), -np.inf)
    alone = [np.diag(one) for one in (n, k, kk)]
    for own in ([one[:, None] for one in alone], [one[None, :] for one in alone]):
        z = np.where(fits & (n < own[0]), np.minimum(z, within(n, k, *own)), -np.inf)
    first, second = np.nonzero(z > NOTABLE)
    at = (first, second)
    sizes = [(np.full(len(first), rows), np.full(len(first), total)), *((alone[0][i], alone[1][i]) for i in at)]
    p = np.max([bad.p(z[at], n[at], k[at], size, sum_) for size, sum_ in sizes], axis=0) if len(first) else []
    strength = excess(n[at], k[at], rows, total, spread)
    named = [
        ((features[parts[i][0]], *parts[i][1:]), (features[parts[j][0]], *parts[j][1:]))
        for i, j in zip(*at, strict=True)
    ]
    return [Candidate(both, float(s), float(one)) for both, s, one in zip(named, strength, p, strict=True)], int(
        fits.sum()
    )


def within(n: Floats, k: Floats, rows: Floats, total: Floats, squares: Floats) -> Floats:
    """The excess of parts over wholes of which the sum and the sum of squares are known."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return excess(n, k, rows, total, squares / rows - (total / rows) ** 2)


def products(
    features: Sequence[Feature], parts: Sequence[tuple[int, int, int]], bad: Badness
) -> tuple[Floats, Floats, Floats]:
    """Counts, sums and sums of squares of all rows in two parts at once, parts × parts: one product of matrices."""
    widths = [len(one.levels) for one in features]
    starts = np.cumsum([0, *widths])
    joined = np.zeros((len(parts), starts[-1]))
    for row, (i, first, last) in enumerate(parts):
        joined[row, starts[i] + first : starts[i] + last + 1] = 1
    codes = np.stack([one.codes + start for one, start in zip(features, starts, strict=False)], 1)
    sums = np.zeros((3, starts[-1], starts[-1]))
    for at in range(0, len(codes), CHUNK):
        some, values = codes[at : at + CHUNK], bad.values[at : at + CHUNK, None].astype(np.float32)
        marked = np.zeros((len(some), starts[-1]), np.float32)
        np.put_along_axis(marked, some, 1, 1)
        for power in range(2 if bad.exact else 3):
            sums[power] += marked.T @ (marked * values**power)
    if bad.exact:
        sums[2] = sums[1]
    n, k, kk = (joined @ one @ joined.T for one in sums)
    return n, k, kk
