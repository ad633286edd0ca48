"""Confidence intervals and tests of means over samples and over pairs of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, benjamini_hochberg, student_quantile

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimates:
    """Values with 95% intervals and p-values for the null hypothesis of zero."""

    value: _Floats
    low: _Floats
    high: _Floats
    p: _Floats


def mean_estimates(
    value: _Floats, influence: _Floats, extra_error: _Floats | None = None, groups: int = 0, *, one_sided: bool = False
) -> Estimates:
    """Return estimates from the contributions of independent samples (samples × features), by Student's t.

    ``extra_error`` is an additional standard error from ``groups`` groups. The two half-widths are combined as
    independent errors.
    """
    count = len(influence)
    if count < 2:
        return _unknown_estimates(value)
    error = influence.std(0, ddof=1) / np.sqrt(count)
    return _student_estimates(value, error, count - 1, extra_error, groups, one_sided)


def difference_estimates(
    value: _Floats, first: _Floats, last: _Floats, extra_error: _Floats | None = None, groups: int = 0
) -> Estimates:
    """Return estimates of the differences ``value`` of the means of two independent samples (samples × features).

    The variances add up (Welch 1947, doi:10.1093/biomet/34.1-2.28). ``extra_error`` is as in ``mean_estimates``.
    """
    count = min(len(first), len(last))
    if count < 2:
        return _unknown_estimates(value)
    error = np.sqrt(first.var(0, ddof=1) / len(first) + last.var(0, ddof=1) / len(last))
    return _student_estimates(value, error, count - 1, extra_error, groups)


def _unknown_estimates(value: _Floats) -> Estimates:
    missing = np.full(len(value), np.nan)
    return Estimates(value, missing, missing, missing)


def _student_estimates(
    value: _Floats,
    error: _Floats,
    degrees_of_freedom: int,
    extra_error: _Floats | None,
    groups: int,
    one_sided: bool = False,
) -> Estimates:
    from scipy.stats import t

    half_width = student_quantile(degrees_of_freedom) * error
    if extra_error is not None and groups > 1:
        half_width = np.hypot(half_width, student_quantile(groups - 1) * extra_error)
        error = np.hypot(error, extra_error)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error > 0, value / error, np.where(value == 0, 0.0, np.inf * np.sign(value)))
    p = t.sf(ratio, degrees_of_freedom) if one_sided else 2 * t.sf(np.abs(ratio), degrees_of_freedom)
    return Estimates(value, value - half_width, value + half_width, np.where(np.isnan(value), np.nan, p))


def ratio_estimates(value: _Floats, influence: _Floats, weight: _Floats) -> Estimates:
    """Return estimates of ratios of two means, such as R².

    ``influence`` is each sample's contribution, ``weight`` its contribution to the denominator, with mean 1. The
    interval contains all ratios that the samples do not reject (Fieller 1954, doi:10.1111/j.2517-6161.1954.tb00159.x).
    For 60 samples with heavy tails it covers 92 to 98%, and Student's interval 73 to 96%. Its ends are NaN if few
    samples dominate the denominator. ``p`` is one-sided.
    """
    count = len(influence)
    if count < 2:
        return mean_estimates(value, influence)
    scaled_quantile = student_quantile(count - 1) ** 2 / count
    weight_variance = weight.var(ddof=1)
    covariance = ((influence - influence.mean(0)) * (weight - weight.mean())[:, None]).sum(0) / (count - 1)
    quadratic, half_linear, constant = (
        1 - scaled_quantile * weight_variance,
        scaled_quantile * covariance,
        -scaled_quantile * influence.var(0, ddof=1),
    )
    if quadratic > 0:
        root = np.sqrt(half_linear**2 - quadratic * constant)
        low, high = value + (-half_linear - root) / quadratic, value + (-half_linear + root) / quadratic
    else:
        low = high = np.full(len(value), np.nan)
    numerator = influence + value * weight[:, None]
    return Estimates(value, low, high, mean_estimates(value, numerator, one_sided=True).p)


def jackknife_error(leave_one_out: _Floats | None) -> _Floats | None:
    """Return the jackknife standard error from the values without each group; None for fewer than two groups.

    Efron and Stein 1981, doi:10.1214/aos/1176345462.
    """
    if leave_one_out is None or len(leave_one_out) < 2:
        return None
    groups = len(leave_one_out)
    return np.asarray(np.sqrt((groups - 1) / groups * ((leave_one_out - leave_one_out.mean(0)) ** 2).sum(0)))


def significant_values(p: _Floats, level: float = 1 - CONFIDENCE_LEVEL) -> NDArray[np.bool_]:
    """Return the significant values at a false discovery rate of ``level``; NaN is never significant."""
    significant, has_p = np.zeros(len(p), bool), np.isfinite(p)
    significant[has_p] = benjamini_hochberg(p[has_p], int(has_p.sum())) <= level
    return significant


def pair_influence(owner: _Floats, donor: _Floats, total: float, repeats: int) -> _Floats:
    """Return the contribution of each sample to a mean over pairs (the owner's row, a donor's value).

    ``owner`` and ``donor`` are its means in either role over ``repeats`` permutations, ``total`` the variance of all
    pairs. The two projections (Hoeffding 1948, doi:10.1214/aoms/1177730196) contain noise from the few permutations,
    which exceeds that of the mean by ``total / repeats``; the sum is scaled so that its variance is that of the mean.
    """
    combined = (owner - owner.mean()) + (donor - donor.mean())
    variance = float(combined.var(ddof=1)) if len(combined) > 1 else 0.0
    target_variance = max(variance - total / repeats, float(owner.var(ddof=1)) if len(owner) > 1 else 0.0)
    return np.asarray(combined * np.sqrt(target_variance / variance) if variance > 0 else owner - owner.mean())


def rank_correlations(first: _Floats, second: _Floats) -> _Floats:
    """Return Spearman's rank correlation of each row; NaN if a row is constant."""
    from scipy.stats import rankdata

    x, y = (ranks - ranks.mean(1, keepdims=True) for ranks in (rankdata(first, axis=1), rankdata(second, axis=1)))
    lengths = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(lengths > 0, (x * y).sum(1) / lengths, np.nan)


def median_rank_correlation(first: _Floats, second: _Floats) -> float:
    """Return the median rank correlation of the rows; NaN if every row has a constant side."""
    correlations = rank_correlations(first, second)
    return float(np.nanmedian(correlations)) if np.isfinite(correlations).any() else float("nan")


def rank_correlation(first: Any, second: Any) -> float:
    """Return Spearman's rank correlation of the finite pairs; NaN for fewer than three or for constant values."""
    first, second = np.asarray(first), np.asarray(second)
    is_finite = np.isfinite(first) & np.isfinite(second)
    return (
        float(rank_correlations(first[None, is_finite], second[None, is_finite])[0]) if is_finite.sum() > 2 else np.nan
    )
