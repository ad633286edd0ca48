"""Whether a part of the rows is worse than the rest by more than chance, and by how much."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import LEVEL, Floats, normal, wilson


def excess(n: Any, k: Any, rows: Any, total: Any, spread: Any) -> Floats:
    """How far the sum ``k`` of ``n`` rows lies above what as many random ones of ``rows`` have, in standard errors.

    ``total`` and ``spread`` are the sum and the variance of all ``rows``. Sums over strata of the differences and of
    the variances give the test of Cochran 1954 (doi:10.2307/3001616) and of Mantel and Haenszel 1959; of ranks it is
    that of Wilcoxon 1945 (doi:10.2307/3001968). NaN where chance has no say.
    """
    above, variance = difference(n, k, rows, total, spread)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(variance > 0, above / np.sqrt(variance), np.nan))


def difference(n: Any, k: Any, rows: Any, total: Any, spread: Any) -> tuple[Floats, Floats]:
    """The same as a difference and its variance."""
    n, k, rows = (np.asarray(one, np.float64) for one in (n, k, rows))
    with np.errstate(invalid="ignore", divide="ignore"):
        above = k - n * total / rows
        variance = n * (rows - n) / np.maximum(rows - 1, 1) * spread
    return np.asarray(above), np.asarray(np.nan_to_num(variance))


def chance(z: Any) -> Floats:
    """The chance of a standard normal number above ``z``."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-np.nan_to_num(np.asarray(z, np.float64), nan=-np.inf)))


def exact(n: Any, k: Any, rows: Any, total: Any) -> Floats:
    """The chance of ``k`` or more hits among ``n`` of ``rows``, of which ``total`` are hits: Fisher's, one-sided."""
    from scipy.stats import hypergeom

    return np.asarray(hypergeom.sf(np.asarray(k) - 1, rows, total, n))


def false_discovery(p: Floats, tried: int) -> Floats:
    """The smallest rate of false discoveries at which each p-value of ``tried`` is one: Benjamini and Hochberg 1995.

    ``p`` may leave out large ones. Doi:10.1111/j.2517-6161.1995.tb02031.x; it holds for tests that hang together as
    slices do, which overlap (Benjamini and Yekutieli 2001, doi:10.1214/aos/1013699998).
    """
    order = np.argsort(p, kind="stable")
    rising = p[order] * tried / np.arange(1, len(p) + 1)
    found = np.empty(len(p))
    found[order] = np.minimum(np.minimum.accumulate(rising[::-1])[::-1], 1.0)
    return found


def newcombe(hits: Any, trials: Any, others: Any, other_trials: Any, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The interval of the difference of two shares.

    Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I, method 10: of both intervals
    of Wilson.
    """
    a, b = np.asarray(hits) / np.asarray(trials), np.asarray(others) / np.asarray(other_trials)
    (low, high), (other_low, other_high) = wilson(hits, trials, level), wilson(others, other_trials, level)
    below = np.sqrt((a - low) ** 2 + (other_high - b) ** 2)
    above = np.sqrt((high - a) ** 2 + (b - other_low) ** 2)
    return np.asarray(a - b - below), np.asarray(a - b + above)


def welch(values: NDArray[Any], others: NDArray[Any], level: float = LEVEL) -> tuple[float, float]:
    """The interval of the difference of two means: Welch 1947, doi:10.1093/biomet/34.1-2.28."""
    from scipy.stats import t

    a, b = values.var(ddof=1) / len(values), others.var(ddof=1) / len(others)
    freedom = (a + b) ** 2 / max(a**2 / (len(values) - 1) + b**2 / (len(others) - 1), 1e-300)
    half = float(t.ppf(0.5 + level / 2, max(freedom, 1)) * np.sqrt(a + b))
    middle = float(values.mean() - others.mean())
    return middle - half, middle + half


def ratio(hits: Any, trials: Any, others: Any, other_trials: Any, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The interval of the ratio of two shares.

    Katz et al. 1978, doi:10.2307/2530610, with half a hit added to each as by Walter 1975.
    """
    hits, trials, others, other_trials = (np.asarray(one, float) for one in (hits, trials, others, other_trials))
    middle = np.log((hits + 0.5) / (trials + 0.5)) - np.log((others + 0.5) / (other_trials + 0.5))
    spread = 1 / (hits + 0.5) - 1 / (trials + 0.5) + 1 / (others + 0.5) - 1 / (other_trials + 0.5)
    half = normal(level) * np.sqrt(spread)
    return np.asarray(np.exp(middle - half)), np.asarray(np.exp(middle + half))
