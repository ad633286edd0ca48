"""Confidence intervals and tests of proportions and means; numbers with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CONFIDENCE_LEVEL = 0.95
MAD_TO_SIGMA = 1.4826  # standard deviation over median absolute deviation of a normal variable


def normal_quantile(level: float) -> float:
    """Return how many standard deviations on both sides hold a share ``level`` of a normal distribution."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + level / 2)


@lru_cache(maxsize=1024)
def student_quantile(degrees_of_freedom: float, level: float = CONFIDENCE_LEVEL) -> float:
    """Return the half-width of an interval in standard errors, by Student's t; NaN without degrees of freedom."""
    from scipy.stats import t

    return float(t.ppf(0.5 + level / 2, degrees_of_freedom))


def prediction_limit(values: Sequence[float], tail: float) -> float:
    """Return the limit that one more normal value like ``values`` exceeds with probability ``tail``, by Student's t."""
    count = len(values)
    half_width = student_quantile(count - 1, 1 - 2 * tail) * np.sqrt(1 + 1 / count)
    return float(np.mean(values) + half_width * np.std(values, ddof=1))


def robust_deviation(values: Floats) -> float:
    """Return 1.4826 × the median absolute deviation; if it is zero, 1.2533 × the mean absolute deviation."""
    deviations = np.abs(values - np.median(values))
    return MAD_TO_SIGMA * float(np.median(deviations)) or 1.2533 * float(deviations.mean())


def wilson_interval(hits: Any, trials: Any, level: float = CONFIDENCE_LEVEL) -> tuple[Floats, Floats]:
    """Return the Wilson interval of a proportion, lower and upper; NaN without trials.

    Wilson 1927, doi:10.1080/01621459.1927.10502953. It keeps its level for few trials and for shares near 0 or 1,
    unlike the Wald interval (Brown, Cai and DasGupta 2001, doi:10.1214/ss/1009213286).
    """
    hits, trials, z = np.asarray(hits, np.float64), np.asarray(trials, np.float64), normal_quantile(level)
    with np.errstate(invalid="ignore", divide="ignore"):
        proportion_value = hits / trials
        middle = (proportion_value + z * z / (2 * trials)) / (1 + z * z / trials)
        half = (
            z
            / (1 + z * z / trials)
            * np.sqrt(proportion_value * (1 - proportion_value) / trials + (z / (2 * trials)) ** 2)
        )
    return np.asarray(np.maximum(middle - half, 0.0)), np.asarray(np.minimum(middle + half, 1.0))


@dataclass(frozen=True)
class Number:
    """A metric with its confidence interval; NaN if there is too little data."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return text such as ``0.52 (0.47 to 0.57)``; an unknown interval is left out."""
        return f"{self.value:.4g}" + (f" ({self.low:.4g} to {self.high:.4g})" if isfinite(self.low) else "")

    def percent(self) -> str:
        """Return text such as ``52.0% (47.1% to 56.9%)``."""
        return f"{self.value:.1%}" + (f" ({self.low:.1%} to {self.high:.1%})" if isfinite(self.low) else "")


def number_from_influence(value: float, influence: NDArray[Any], level: float = CONFIDENCE_LEVEL) -> Number:
    """Return a number with a normal interval from its influence values.

    ``influence`` has one value per independent row and mean 0: the change of the number with the weight of that row
    (Hampel 1974, doi:10.1080/01621459.1974.10482962).
    """
    if len(influence) < 2:
        return Number(value, float("nan"), float("nan"))
    half = normal_quantile(level) * float(influence.std(ddof=1)) / float(np.sqrt(len(influence)))
    return Number(value, value - half, value + half)


def proportion(hits: int, trials: int, level: float = CONFIDENCE_LEVEL) -> Number:
    """Return a proportion of independent trials with its Wilson interval."""
    low, high = wilson_interval(hits, trials, level)
    return Number(hits / trials if trials else float("nan"), float(low), float(high))


def excess_z_score(n: Any, k: Any, rows: Any, total: Any, population_variance: Any) -> Floats:
    """Return the z-score of the sum ``k`` over ``n`` rows, compared with a random draw of ``n`` rows.

    ``total`` is the sum and ``population_variance`` the variance of all ``rows``. Adding up differences and variances
    over strata gives the test of Cochran 1954 (doi:10.2307/3001616) and of Mantel and Haenszel 1959; with ranks it is
    that of Wilcoxon 1945 (doi:10.2307/3001968). NaN if the variance is zero.
    """
    observed_excess, variance = excess_and_variance(n, k, rows, total, population_variance)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(variance > 0, observed_excess / np.sqrt(variance), np.nan))


def excess_and_variance(n: Any, k: Any, rows: Any, total: Any, population_variance: Any) -> tuple[Floats, Floats]:
    """Return the excess of the sum over its expectation, and its variance."""
    n, k, rows = (np.asarray(values, np.float64) for values in (n, k, rows))
    with np.errstate(invalid="ignore", divide="ignore"):
        observed_excess = k - n * total / rows
        variance = n * (rows - n) / np.maximum(rows - 1, 1) * population_variance
    return np.asarray(observed_excess), np.asarray(np.nan_to_num(variance))


def normal_tail(z: Any) -> Floats:
    """Return the upper-tail probability of a standard normal at ``z``."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-np.nan_to_num(np.asarray(z, np.float64), nan=-np.inf)))


def fisher_tail(n: Any, k: Any, rows: Any, total: Any) -> Floats:
    """Return the one-sided p-value of Fisher's exact test.

    The probability of ``k`` or more hits among ``n`` of ``rows`` rows, of which ``total`` are hits.
    """
    from scipy.stats import hypergeom

    return np.asarray(hypergeom.sf(np.asarray(k) - 1, rows, total, n))


def benjamini_hochberg(p: Floats, tests: int) -> Floats:
    """Return the q-value of each p-value out of ``tests`` tests, by Benjamini and Hochberg 1995.

    ``p`` may leave out large values. doi:10.1111/j.2517-6161.1995.tb02031.x; it holds under the positive dependence of
    overlapping slices (Benjamini and Yekutieli 2001, doi:10.1214/aos/1013699998).
    """
    order = np.argsort(p, kind="stable")
    adjusted = p[order] * tests / np.arange(1, len(p) + 1)
    q_values = np.empty(len(p))
    q_values[order] = np.minimum(np.minimum.accumulate(adjusted[::-1])[::-1], 1.0)
    return q_values


def newcombe_interval(
    hits: Any, trials: Any, other_hits: Any, other_trials: Any, level: float = CONFIDENCE_LEVEL
) -> tuple[Floats, Floats]:
    """Return the interval of the difference of two proportions.

    Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I, method 10: built from both
    Wilson intervals.
    """
    share, other_share = np.asarray(hits) / np.asarray(trials), np.asarray(other_hits) / np.asarray(other_trials)
    (low, high), (other_low, other_high) = (
        wilson_interval(hits, trials, level),
        wilson_interval(other_hits, other_trials, level),
    )
    lower_distance = np.sqrt((share - low) ** 2 + (other_high - other_share) ** 2)
    upper_distance = np.sqrt((high - share) ** 2 + (other_share - other_low) ** 2)
    return np.asarray(share - other_share - lower_distance), np.asarray(share - other_share + upper_distance)


def welch_interval(
    values: NDArray[Any], other_values: NDArray[Any], level: float = CONFIDENCE_LEVEL
) -> tuple[float, float]:
    """Return the interval of the difference of two means: Welch 1947, doi:10.1093/biomet/34.1-2.28."""
    squared_error, other_squared_error = values.var(ddof=1) / len(values), other_values.var(ddof=1) / len(other_values)
    degrees_of_freedom = (squared_error + other_squared_error) ** 2 / max(
        squared_error**2 / (len(values) - 1) + other_squared_error**2 / (len(other_values) - 1), 1e-300
    )
    quantile = student_quantile(float(max(degrees_of_freedom, 1)), level)
    half = quantile * float(np.sqrt(squared_error + other_squared_error))
    middle = float(values.mean() - other_values.mean())
    return middle - half, middle + half


def ratio_interval(
    hits: Any, trials: Any, other_hits: Any, other_trials: Any, level: float = CONFIDENCE_LEVEL
) -> tuple[Floats, Floats]:
    """Return the interval of the ratio of two proportions.

    Katz et al. 1978, doi:10.2307/2530610, with half a hit added to each (Walter 1975).
    """
    hits, trials, other_hits, other_trials = (
        np.asarray(values, float) for values in (hits, trials, other_hits, other_trials)
    )
    middle = np.log((hits + 0.5) / (trials + 0.5)) - np.log((other_hits + 0.5) / (other_trials + 0.5))
    variance = 1 / (hits + 0.5) - 1 / (trials + 0.5) + 1 / (other_hits + 0.5) - 1 / (other_trials + 0.5)
    half = normal_quantile(level) * np.sqrt(variance)
    return np.asarray(np.exp(middle - half)), np.asarray(np.exp(middle + half))
