"""Recognizes different scaling of two splits by the shape of the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.sample_display.image_normalization import COMMON_NORMALIZATIONS
from nbdebug.tools.data.comparison_features import FeatureColumn

_Floats = NDArray[np.float64]
_MIN_ROWS, _MIN_FACTOR, _MIN_SHARE, _TOLERANCE, _CLOSE = 30, 1.5, 0.8, 0.08, 0.04
_FACTOR_SPREAD = 0.3  # of the logarithms of the factors, which few samples determine poorly
# Factors of the standard error of the Kolmogorov-Smirnov distance at significance 1e-5 and 0.01.
_DIFFERS, _AGREES = 2.47, 1.63
_MAX_ROWS = 2000
_NORMALIZED_MEAN, _NORMALIZED_STD = 0.1, (0.8, 1.25)


@dataclass(frozen=True)
class _AffineRelation:
    """The second sample has the distribution of ``factor`` × the first + ``offset``, and not that of the first."""

    factor: float
    offset: float


def _find_affine_relation(first: _Floats, second: _Floats) -> _AffineRelation | None:
    """Return the relation of two samples of numbers if it explains their difference; None if there is none.

    The factor and the offset match the quantiles; the Kolmogorov-Smirnov test must reject the samples as they
    are (p < 1e-5) and accept them after the change (p > 0.01).
    """
    first, second = (values[np.isfinite(values)][:_MAX_ROWS] for values in (first, second))
    if min(len(first), len(second)) < _MIN_ROWS:
        return None
    error = (1 / len(first) + 1 / len(second)) ** 0.5
    shares = np.linspace(0.05, 0.95, 19)
    before, after = np.quantile(first, shares), np.quantile(second, shares)
    if before.std() == 0 or after.std() == 0 or _ks_distance(first, second) <= _DIFFERS * error:
        return None
    scaled = _AffineRelation(float(before @ after / (before @ before)), 0.0)
    factor = float(after.std() / before.std())
    moved = _AffineRelation(factor, float(after.mean() - factor * before.mean()))
    # Of few distinct values, only the exact factor makes the samples agree.
    widest = float(np.abs(second).max() / np.abs(first).max())
    spanned = float(np.ptp(second) / np.ptp(first))
    exact = _AffineRelation(widest, 0.0), _AffineRelation(spanned, float(second.min() - spanned * first.min()))
    for relation in (scaled, exact[0], moved, exact[1]):
        if _ks_distance(relation.factor * first + relation.offset, second) < _AGREES * error:
            return relation
    return None


def _ks_distance(first: _Floats, second: _Floats) -> float:
    """Return the largest distance between the distribution functions, apart from rounding of equal values."""
    scale = max(np.abs(first).max(), np.abs(second).max(), 1e-30)
    first, second = (np.sort(np.round(values / scale, 6)) for values in (first, second))
    points = np.concatenate([first, second])
    shares = [np.searchsorted(side, points, side="right") / len(side) for side in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def describe_scaling(first: Sequence[FeatureColumn], second: Sequence[FeatureColumn]) -> str:
    """Return how the numbers of the second split are scaled otherwise than those of the first; "" if they are not.

    Most features must have the same relation: the same factor without an offset, or the change to mean 0 and standard
    deviation 1 of each feature, or its reverse. Columns are paired by position.
    """
    pairs = [
        (one.values, other.values)
        for one, other in zip(first, second, strict=False)
        if one.role == "input" and not one.is_category and not one.name.endswith(("spread", "step"))
    ]
    varying = [pair for pair in pairs if min(np.nanstd(pair[0]), np.nanstd(pair[1])) > 0]
    relations = [(pair, _find_affine_relation(*pair)) for pair in varying]
    known = [(pair, relation) for pair, relation in relations if relation is not None]
    if not known or len(known) < _MIN_SHARE * len(varying):
        return ""
    factors = np.array([relation.factor for _, relation in known])
    if max(abs(np.median(factors)), 1 / max(abs(np.median(factors)), 1e-12)) < _MIN_FACTOR:
        return ""
    return _describe_relations(known, factors)


def _describe_relations(known: Sequence[tuple[tuple[_Floats, _Floats], _AffineRelation]], factors: _Floats) -> str:
    factor = float(np.median(factors))
    offsets = np.array([relation.offset for _, relation in known])
    moments = np.array([[np.nanmean(side), np.nanstd(side)] for pair, _ in known for side in pair]).reshape(-1, 2, 2)
    is_uniform = bool((np.abs(factors / factor - 1) < _TOLERANCE).mean() >= _MIN_SHARE)
    is_proportional = bool((np.abs(np.log(factors / factor)) < _FACTOR_SPREAD).mean() >= _MIN_SHARE)
    if is_proportional and float((offsets == 0).mean()) >= _MIN_SHARE:
        return _describe_factor(factor)
    if is_uniform and (name := _find_normalization(factor, float(np.median(offsets)))):
        return name
    for side, other, text in ((1, 0, "standardized, and those of {first} are not"), (0, 1, "not standardized")):
        if _is_standard(moments[:, side]) and not _is_standard(moments[:, other]):
            return f"the values of {{second}} are {text}: another mean and standard deviation for each feature"
    mean, std = -float(np.median(offsets / factors)), 1 / factor
    moved = f"(x {'-' if mean > 0 else '+'} {abs(mean):.3g}) / {std:.3g}"
    return (
        f"the values of {{second}} are {moved}, where x are those of {{first}}: one split lacks this normalization, "
        "has it twice or has another one"
    )


def _is_standard(moments: _Floats) -> bool:
    means, stds = moments.T
    is_standard = (np.abs(means) < _NORMALIZED_MEAN) & (stds > _NORMALIZED_STD[0]) & (stds < _NORMALIZED_STD[1])
    return bool(is_standard.mean() >= _MIN_SHARE)


def _describe_factor(factor: float) -> str:
    for known, text in (
        (255.0, "the values of {second} range over 0–255 where those of {first} range over 0–1: divide them by 255"),
        (1 / 255, "the values of {second} are divided by 255 once more than those of {first}"),
    ):
        if abs(factor / known - 1) < _TOLERANCE:
            return text
    ratio = f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"
    return f"the values of {{second}} are {ratio} those of {{first}}: one split is scaled once more, or in another unit"


def _find_normalization(factor: float, offset: float) -> str:
    """Return the description of a common normalization that maps one split to the other; "" for none."""
    for name, (means, stds) in COMMON_NORMALIZATIONS.items():
        mean, std = float(np.mean(means)), float(np.mean(stds))
        for known_factor, known_offset, text in (
            (1 / std, -mean / std, "once more than those of {first}"),
            (std, mean, "once less than those of {first}"),
        ):
            if abs(factor / known_factor - 1) < _CLOSE and abs(offset / known_offset - 1) < _CLOSE:
                return f"the values of {{second}} have a normalization, such as that of {name}, {text}"
    return ""
