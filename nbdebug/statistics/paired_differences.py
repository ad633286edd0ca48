"""Mean of paired differences, with its interval and the p-value of a sign-flip test."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from nbdebug.statistics.intervals import Floats, student_quantile

MAX_EXACT_PAIRS = 16  # 65,536 sign patterns


@dataclass(frozen=True)
class PairedDifference:
    """The mean of paired differences with its 95% interval by Student's t; NaN for fewer than two pairs.

    ``p`` is the two-sided p-value of the exact sign-flip test (Fisher 1935, The Design of Experiments, section 21):
    the share of all sign patterns whose mean is at least as large. ``smallest_p`` is the smallest possible one.
    """

    value: float
    low: float
    high: float
    p: float
    pairs: int

    @property
    def smallest_p(self) -> float:
        """The p-value if all differences have the same sign."""
        return 2.0 ** (1 - self.pairs) if self.pairs else 1.0

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero, with the sign of the difference; else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        """Return text such as ``+0.31 (+0.27 to +0.35), sign-flip p 0.062``."""
        interval = f" ({self.low:+.3g} to {self.high:+.3g})" if np.isfinite(self.low) else ""
        return f"{self.value:+.3g}{interval}, sign-flip p {self.p:.2g}"


def paired_difference(differences: Floats) -> PairedDifference:
    """Return the mean of up to 16 finite differences, with interval and p-value; raise ValueError for more."""
    count = len(differences)
    if count > MAX_EXACT_PAIRS:
        raise ValueError(f"there are {count} pairs; expected at most {MAX_EXACT_PAIRS}. Pass fewer.")
    if not count:
        return PairedDifference(mean := float("nan"), mean, mean, mean, 0)
    mean = float(differences.mean())
    if count < 2:
        return PairedDifference(mean, float("nan"), float("nan"), 1.0, count)
    half = student_quantile(count - 1) * float(differences.std(ddof=1)) / count**0.5
    return PairedDifference(mean, mean - half, mean + half, sign_flip_p(differences), count)


def sign_flip_p(differences: Floats) -> float:
    """Return the two-sided p-value of the exact sign-flip test of a mean of zero."""
    signs = np.array(list(product((1.0, -1.0), repeat=len(differences))))
    means = np.abs(signs @ differences)
    observed = abs(float(differences.sum()))
    tolerance = 1e-9 * float(np.abs(differences).sum())
    return float((means >= observed - tolerance).mean())
