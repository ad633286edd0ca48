"""One number with the interval around it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import LEVEL, normal, wilson


@dataclass(frozen=True)
class Number:
    """A metric and how far it may be off by chance; NaN where there is too little to tell."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Such as ``0.52 (0.47 to 0.57)``; without an interval that is not known."""
        return f"{self.value:.4g}" + (f" ({self.low:.4g} to {self.high:.4g})" if isfinite(self.low) else "")

    def percent(self) -> str:
        """Such as ``52.0% (47.1% to 56.9%)``."""
        return f"{self.value:.1%}" + (f" ({self.low:.1%} to {self.high:.1%})" if isfinite(self.low) else "")


def around(value: float, influence: NDArray[Any], level: float = LEVEL) -> Number:
    """A number of independent rows with what each of them adds to it, by its normal approximation.

    ``influence`` has mean 0: the change of the number with the weight of a row (Hampel 1974,
    doi:10.1080/01621459.1974.10482962).
    """
    if len(influence) < 2:
        return Number(value, float("nan"), float("nan"))
    half = normal(level) * float(influence.std(ddof=1)) / float(np.sqrt(len(influence)))
    return Number(value, value - half, value + half)


def share(hits: int, trials: int, level: float = LEVEL) -> Number:
    """A share of independent trials, with the interval of Wilson."""
    low, high = wilson(hits, trials, level)
    return Number(hits / trials if trials else float("nan"), float(low), float(high))
