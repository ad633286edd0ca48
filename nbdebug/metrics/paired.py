"""Two models on the same rows: what one mends and what it breaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import LEVEL, normal


@dataclass(frozen=True)
class Flips:
    """``fixed`` rows are right only after, ``broken`` ones only before, of ``rows``.

    ``gain`` is the difference in accuracy with its interval; ``p`` the chance of so uneven flips if neither is better.
    """

    rows: int
    fixed: int
    broken: int
    gain: float
    low: float
    high: float
    p: float


def flips(before: NDArray[np.bool_], after: NDArray[np.bool_], level: float = LEVEL) -> Flips:
    """What changed between two models; each array says which rows are right.

    The exact test of McNemar 1947, doi:10.1007/BF02295996; the interval is the one of Agresti and Min 2005,
    doi:10.1002/sim.1917, which adds half a row to each of the four counts.
    """
    from scipy.stats import binomtest

    rows, fixed, broken = len(before), int((after & ~before).sum()), int((before & ~after).sum())
    total, up, down = rows + 2, fixed + 0.5, broken + 0.5
    middle = (up - down) / total
    half = normal(level) * float(np.sqrt(up + down - (up - down) ** 2 / total)) / total
    p = float(binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0
    return Flips(rows, fixed, broken, (fixed - broken) / max(rows, 1), middle - half, middle + half, p)
