"""The shift of one feature between two sets of samples, and which of many shifts are significant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.distribution_distances import DistributionDistance, category_distance, numeric_distance
from nbdebug.statistics.estimates import significant_values
from nbdebug.statistics.power import normal_shift_of_ks_distance
from nbdebug.tools.data.comparison_features import FeatureColumn

_Floats = NDArray[np.float64]
# The false discovery rate. Equal splits give an alarm with a probability of 1%: 0.4% each by the features and by the
# classifier, 0.1% each by the classes and by the energy distance. A smaller effect does not count as a shift.
LEVEL, _MIN_EFFECT = 0.004, 0.03
_MEDIUM_EFFECT, _LARGE_EFFECT = 0.1, 0.25


@dataclass(frozen=True)
class FeatureShift:
    """The distance of one feature between two splits; ``is_shifted`` if it is significant and not negligible.

    ``missing`` are the shares of missing values in both splits, which are compared like a category.
    """

    role: str
    name: str
    is_category: bool
    distance: DistributionDistance
    missing: tuple[float, float] = (0.0, 0.0)
    is_shifted: bool = False

    @property
    def title(self) -> str:
        """The role and the name."""
        return f"{self.role} {self.name}".strip()

    @property
    def effect_name(self) -> str:
        """The name of the effect size."""
        return "Cramér's V" if self.is_category else "KS"

    @property
    def text(self) -> str:
        """The feature with its effect, in words."""
        return f"{self.title}, {self.effect_name} {self.distance.effect:.2g} ({self.size})"

    @property
    def size(self) -> str:
        """The effect in a word."""
        effect = self.distance.effect
        return "large" if effect >= _LARGE_EFFECT else "medium" if effect >= _MEDIUM_EFFECT else "small"


def describe_power(detectable: float, place: str = "") -> str:
    """Return the smallest shift that would have been shown, in words, with the place where it may be."""
    if detectable >= 1:
        return f"no shift{place} could have been shown"
    shift = normal_shift_of_ks_distance(detectable)
    return f"a shift of {shift:.2g} sd (KS {detectable:.2g}){place} would have been shown with 90% probability"


def compare_columns(first: FeatureColumn, second: FeatureColumn) -> FeatureShift:
    """Return the distance of one feature between two sets of samples, by its values or by its missing ones."""
    missing = [~np.isfinite(column.values) for column in (first, second)]
    shares = (float(missing[0].mean()), float(missing[1].mean()))
    if first.is_category:
        distance = _compare_codes(first.values, second.values)
    else:
        distance = numeric_distance(first.values, second.values)
    if any(shares):
        counts = [np.array([(~side).sum(), side.sum()], np.float64) for side in missing]
        by_missing = category_distance(counts[0], counts[1])
        if not distance.p < by_missing.p:
            distance = replace(by_missing, wasserstein=distance.wasserstein, mean_shift=distance.mean_shift)
    return FeatureShift(first.role, first.name, first.is_category, distance, shares)


def _compare_codes(first: _Floats, second: _Floats) -> DistributionDistance:
    codes = np.unique(np.concatenate([first, second]))
    counts = [np.bincount(np.searchsorted(codes, side), minlength=len(codes)).astype(float) for side in (first, second)]
    return category_distance(counts[0], counts[1])


def judge_shifts(shifts: Sequence[FeatureShift], level: float = LEVEL) -> list[FeatureShift]:
    """Mark the shifts that are significant at a false discovery rate and not negligible."""
    significant = significant_values(np.array([shift.distance.p for shift in shifts], np.float64), level)
    return [
        replace(shift, is_shifted=bool(is_significant) and shift.distance.effect >= _MIN_EFFECT)
        for shift, is_significant in zip(shifts, significant, strict=True)
    ]
