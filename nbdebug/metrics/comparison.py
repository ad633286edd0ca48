"""McNemar comparison of two models on the same rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, normal_quantile


@dataclass(frozen=True)
class PairedComparison:
    """``fixed`` rows are correct only after, ``broken`` rows only before, out of ``rows``.

    ``gain`` is the difference in accuracy with its interval; ``p`` is the p-value of McNemar's test.
    """

    rows: int
    fixed: int
    broken: int
    gain: float
    low: float
    high: float
    p: float


def compare_paired(
    before: NDArray[np.bool_], after: NDArray[np.bool_], level: float = CONFIDENCE_LEVEL
) -> PairedComparison:
    """Compare two models; each array says which rows are correct.

    The exact test of McNemar 1947, doi:10.1007/BF02295996. The interval is that of Agresti and Min 2005,
    doi:10.1002/sim.1917, which adds half a row to each of the four counts.
    """
    from scipy.stats import binomtest

    rows, fixed, broken = len(before), int((after & ~before).sum()), int((before & ~after).sum())
    total, up, down = rows + 2, fixed + 0.5, broken + 0.5
    middle = (up - down) / total
    half = normal_quantile(level) * float(np.sqrt(up + down - (up - down) ** 2 / total)) / total
    p = float(binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0
    return PairedComparison(rows, fixed, broken, (fixed - broken) / max(rows, 1), middle - half, middle + half, p)
