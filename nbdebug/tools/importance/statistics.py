"""Intervals and tests of means over samples, and over pairs of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import LEVEL

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimates:
    """A number for each feature with its 95 % interval and the chance ``p`` of such a value were the true one zero."""

    value: Floats
    low: Floats
    high: Floats
    p: Floats


def quantile(freedom: float) -> float:
    """How many standard errors the interval has on each side."""
    from scipy.stats import t

    return float(t.ppf(0.5 + LEVEL / 2, freedom)) if freedom > 0 else float("nan")


def estimates(
    value: Floats, influence: Floats, more: Floats | None = None, groups: int = 0, *, one_sided: bool = False
) -> Estimates:
    """Numbers of independent samples with what each adds to them (samples × features), by Student's distribution.

    ``more`` is another standard error, from so many ``groups``. Both halves are added as independent ones are.
    """
    from scipy.stats import t

    count = len(influence)
    if count < 2:
        none = np.full(len(value), np.nan)
        return Estimates(value, none, none, none)
    error = influence.std(0, ddof=1) / np.sqrt(count)
    half, whole = quantile(count - 1) * error, error
    if more is not None and groups > 1:
        half, whole = np.hypot(half, quantile(groups - 1) * more), np.hypot(error, more)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(whole > 0, value / whole, np.where(value == 0, 0.0, np.inf * np.sign(value)))
    p = t.sf(ratio, count - 1) if one_sided else 2 * t.sf(np.abs(ratio), count - 1)
    return Estimates(value, value - half, value + half, np.where(np.isnan(value), np.nan, p))


def of_ratios(value: Floats, influence: Floats, weight: Floats) -> Estimates:
    """Numbers that are ratios of two means, as R² is, with what each sample adds to them and to the mean below.

    ``weight`` is of mean 1. All ratios are in the interval that the samples do not speak against (Fieller 1954,
    doi:10.1111/j.2517-6161.1954.tb00159.x). Of 60 samples with heavy tails it covers 92 to 98 % where Student's covers
    73 to 96; it has no ends, NaN, where few samples make up the mean below. ``p`` is one-sided.
    """
    count = len(influence)
    if count < 2:
        return estimates(value, influence)
    share = quantile(count - 1) ** 2 / count
    below = weight.var(ddof=1)
    both = ((influence - influence.mean(0)) * (weight - weight.mean())[:, None]).sum(0) / (count - 1)
    lead, half, rest = 1 - share * below, share * both, -share * influence.var(0, ddof=1)
    if lead > 0:
        ends = np.sqrt(half**2 - lead * rest)
        low, high = value + (-half - ends) / lead, value + (-half + ends) / lead
    else:
        low = high = np.full(len(value), np.nan)
    above = influence + value * weight[:, None]
    return Estimates(value, low, high, estimates(value, above, one_sided=True).p)


def jackknife(left_out: Floats | None) -> Floats | None:
    """The standard error of a number from its values without each group (Efron and Stein 1981,
    doi:10.1214/aos/1176345462); None for fewer than two groups.
    """
    if left_out is None or len(left_out) < 2:
        return None
    groups = len(left_out)
    return np.asarray(np.sqrt((groups - 1) / groups * ((left_out - left_out.mean(0)) ** 2).sum(0)))


def discoveries(p: Floats, level: float = 1 - LEVEL) -> NDArray[np.bool_]:
    """Which of many are told from chance when at most a twentieth of those told may be false.

    Benjamini and Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x; NaN is never told.
    """
    from scipy.stats import false_discovery_control

    told, known = np.zeros(len(p), bool), np.isfinite(p)
    if known.any():
        told[known] = false_discovery_control(p[known]) <= level
    return told


def pair_influence(owner: Floats, donor: Floats, total: float, repeats: int) -> Floats:
    """What each sample adds to a mean over pairs (its owner's row, another's value), as often as it was in one.

    ``owner`` and ``donor`` are its means in either part over ``repeats`` permutations, ``total`` the variance of all
    pairs. Its two projections (Hoeffding 1948, doi:10.1214/aoms/1177730196) hold noise of few permutations, more than
    the mean does by ``total / repeats``; the sum is scaled so that its variance is that of the mean.
    """
    both = (owner - owner.mean()) + (donor - donor.mean())
    found = float(both.var(ddof=1)) if len(both) > 1 else 0.0
    wanted = max(found - total / repeats, float(owner.var(ddof=1)) if len(owner) > 1 else 0.0)
    return np.asarray(both * np.sqrt(wanted / found) if found > 0 else owner - owner.mean())


def ranks_agree(one: Any, other: Any) -> float:
    """Spearman's rank correlation; NaN for fewer than three, or for constant values."""
    from scipy.stats import spearmanr

    one, other = np.asarray(one), np.asarray(other)
    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < 3 or np.ptp(one[known]) == 0 or np.ptp(other[known]) == 0:
        return float("nan")
    return float(spearmanr(one[known], other[known]).statistic)
