"""The smallest fault that a check would have shown with a given probability."""

from __future__ import annotations

import math

POWER = 0.9


def detectable_share(samples: int, size: int | None = None, power: float = POWER) -> float:
    """Return the smallest share of faulty samples of which a random draw contains at least one.

    Of ``size`` samples in all, ``samples`` are drawn without replacement; the share is 1 / size if all are. Without
    ``size``, the draw is binomial: 1 - (1 - power)^(1 / samples).
    """
    if samples < 1:
        return 1.0
    if size is not None and samples >= size:
        return 1 / size
    share = 1.0 - (1 - power) ** (1 / samples)
    return float(share if size is None else min(max(share, 1 / size), 1.0))


def detectable_pair_share(samples: int, size: int | None, power: float = POWER) -> float:
    """Return the smallest share of samples with a copy of which a random draw contains a pair.

    Both samples of a pair are drawn with probability (samples / size)²; the pairs are independent.
    """
    if size is None or samples >= size:
        return 1 / max(size or samples, 1)
    both = (samples / size) ** 2
    pairs = math.log(1 - power) / math.log1p(-both)
    return min(pairs / size, 1.0)


def detectable_overlap(samples: tuple[int, int], sizes: tuple[int | None, int | None], power: float = POWER) -> float:
    """Return the smallest share of the second split with a copy in the first of which both random draws show one."""
    rate = 1.0
    for count, size in zip(samples, sizes, strict=True):
        rate *= min(count / size, 1.0) if size else 1.0
    second_size = sizes[1] or samples[1]
    if rate >= 1 or rate <= 0:
        return 1 / max(second_size, 1)
    return min(math.log(1 - power) / math.log1p(-rate) / second_size, 1.0)


def detectable_ks_distance(first: int, second: int, level: float, power: float = POWER) -> float:
    """Return a Kolmogorov-Smirnov distance that the two-sample test of ``level`` shows at least with ``power``.

    The bound of Massey 1950, A Note on the Power of a Non-Parametric Test: the difference of the two distribution
    functions where they are farthest apart has a standard error of at most 1/2 · sqrt(1/first + 1/second).
    """
    from scipy.special import kolmogi
    from scipy.stats import norm

    if min(first, second) < 2:
        return 1.0
    error = math.sqrt(1 / first + 1 / second)
    return float(min((kolmogi(level) + norm.ppf(power) / 2) * error, 1.0))


def normal_shift_of_ks_distance(distance: float) -> float:
    """Return the shift of a normal distribution, in standard deviations, that has a Kolmogorov-Smirnov distance."""
    from scipy.stats import norm

    return float(2 * norm.ppf((1 + min(distance, 1 - 1e-12)) / 2))


def detectable_cramers_v(first: int, second: int, categories: int, level: float, power: float = POWER) -> float:
    """Return the smallest Cramér's V that the chi-squared test of ``level`` shows with ``power``.

    From the noncentral chi-squared distribution (Cohen 1988, Statistical Power Analysis, chapter 7).
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2, ncx2

    degrees, total = max(categories - 1, 1), first + second
    critical = chi2.isf(level, degrees)
    if ncx2.sf(critical, degrees, total) < power:
        return 1.0
    return float(brentq(lambda v: ncx2.sf(critical, degrees, total * v**2) - power, 1e-9, 1.0))
