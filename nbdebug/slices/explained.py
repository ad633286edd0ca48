"""Of many slices that overlap, the few that say it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import Floats
from nbdebug.slices.candidates import Badness, Candidate
from nbdebug.slices.statistics import chance, difference

CONSIDERED, ALIKE = 200, 0.5


def strongest(
    candidates: Mapping[Candidate, float],
    values: Floats,
    bad: Badness,
    tried: int,
    rate: float,
    least: float,
    most: int,
) -> dict[Candidate, float]:
    """The strongest, and then each that is still worse than expected by those that were taken before it.

    Expected is the mean of the rows that lie in the same of the taken slices. That test, too, is one of all that were
    ``tried``: one real slice makes many discoveries, which overlap, and under their number false ones would slip in
    beside it; so each that is taken counts once. ``candidates`` come with their q-values, and so do those that are
    taken. ``least`` is by how much of the rest's value a slice must be worse.
    """
    taken, masks = dict[Candidate, float](), list[NDArray[np.bool_]]()
    strata, considered = np.zeros(len(values), np.int64), Counter[bool]()
    for one in sorted(candidates, key=lambda one: one.rank):
        if len(taken) == most or considered[one.has_target] == CONSIDERED or any(touches(one, two) for two in taken):
            continue
        considered[one.has_target] += 1
        mask = one.mask()
        if not worse(values, mask, least) or any(alike(mask, other) for other in masks):
            continue
        free, q = ~covered(one, taken, masks), candidates[one]
        if taken:
            q = max(q, more_than(mask[free], strata[free], bad.part(free)) * tried / (len(taken) + 1))
        if q <= rate:
            taken[one] = q
            masks.append(mask)
            strata = np.unique(strata * 2 + mask, return_inverse=True)[1]
    return taken


def covered(one: Candidate, taken: Iterable[Candidate], masks: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """The rows of taken slices of the same features and more, which therefore say all that this one could of them."""
    names = {part[0].name for part in one.parts}
    found = np.zeros(len(one.parts[0][0].codes), bool)
    for other, mask in zip(taken, masks, strict=True):
        if names <= {part[0].name for part in other.parts}:
            found |= mask
    return found


def touches(one: Candidate, other: Candidate) -> bool:
    """Whether two slices of the same features share levels, or are neighbors: one is the edge of the other."""
    if [part[0].name for part in one.parts] != [part[0].name for part in other.parts]:
        return False
    return all(near(a, b) for a, b in zip(one.parts, other.parts, strict=True))


def near(a: tuple[object, int, int], b: tuple[object, int, int]) -> bool:
    """Whether two runs of levels overlap or, where levels follow each other, lie side by side."""
    return a[1] <= b[2] + gap(a, b) and b[1] <= a[2] + gap(a, b)


def gap(a: tuple[object, int, int], b: tuple[object, int, int]) -> int:
    """One where both runs are of levels that follow each other."""
    ordered = getattr(a[0], "ordered", 0)
    return int(a[2] < ordered and b[2] < ordered)


def worse(values: Floats, mask: NDArray[np.bool_], least: float) -> bool:
    """Whether rows are worse than the rest by a part of its value."""
    inside, rest = values[mask].mean(), values[~mask].mean()
    return bool(inside - rest > least * abs(rest))


def alike(mask: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
    """Whether two slices are mostly the same rows."""
    return bool((mask & other).sum() > ALIKE * (mask | other).sum())


def more_than(mask: NDArray[np.bool_], strata: NDArray[np.int64], bad: Badness) -> float:
    """The chance that rows are so much worse than the others of the same strata; for shares at most.

    The number of hits is a sum of hypergeometric ones, whose upper tail is under that of a binomial one of the same
    mean (Hoeffding 1956, doi:10.1214/aoms/1177728178).
    """
    from scipy.stats import binom

    if not mask.any():
        return 1.0
    values = bad.values
    rows, total, squares = np.bincount(strata), np.bincount(strata, values), np.bincount(strata, values**2)
    rows = np.maximum(rows, 1)
    n, k = np.bincount(strata[mask], minlength=len(rows)), np.bincount(strata[mask], values[mask], len(rows))
    above, variance = difference(n, k, rows, total, squares / rows - (total / rows) ** 2)
    if variance.sum() <= 0 or above.sum() <= 0:
        return 1.0
    if bad.exact:
        return float(binom.sf(k.sum() - 1, n.sum(), (k.sum() - above.sum()) / n.sum()))
    return float(chance(above.sum() / np.sqrt(variance.sum())))
