"""How far a share may be off by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95


def normal(level: float) -> float:
    """How many standard deviations hold a share ``level`` of a normal distribution."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + level / 2)


def wilson(hits: Any, trials: Any, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The interval of a share of independent trials, below and above; NaN where there were none.

    Wilson 1927, doi:10.1080/01621459.1927.10502953; it holds its level for few trials and shares near 0 or 1, where
    the usual one does not (Brown, Cai and DasGupta 2001, doi:10.1214/ss/1009213286).
    """
    hits, trials, z = np.asarray(hits, np.float64), np.asarray(trials, np.float64), normal(level)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = hits / trials
        middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
        half = z / (1 + z * z / trials) * np.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return np.asarray(np.maximum(middle - half, 0.0)), np.asarray(np.minimum(middle + half, 1.0))
