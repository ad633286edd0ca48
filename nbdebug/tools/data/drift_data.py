"""Compares the features, the labels and the preprocessing of two splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.split_statistics import UnitComparison
from nbdebug.setup import Setup
from nbdebug.statistics.distribution_distances import DistributionDistance, category_distance, numeric_distance
from nbdebug.statistics.estimates import significant_values
from nbdebug.statistics.power import detectable_ks_distance, normal_shift_of_ks_distance
from nbdebug.tools.data.comparison_features import FeatureColumn, comparison_columns
from nbdebug.tools.data.concept_shift import ConceptShift, measure_concept_shift
from nbdebug.tools.data.domain_classifier import DomainClassifier, fit_domain_classifier, share_features
from nbdebug.tools.data.mismatch import describe_orientation, describe_scaling

_Floats = NDArray[np.float64]
# The false discovery rate, half of the probability of 1% that equal splits give an alarm: the classifier has the other
# half. The smallest effect that counts as a shift.
LEVEL, _MIN_EFFECT = 0.005, 0.03
_MEDIUM_EFFECT, _LARGE_EFFECT = 0.1, 0.25
_MIN_ROWS = 20


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
    def size(self) -> str:
        """The effect in a word."""
        effect = self.distance.effect
        return "large" if effect >= _LARGE_EFFECT else "medium" if effect >= _MEDIUM_EFFECT else "small"


@dataclass(frozen=True)
class SplitComparison:
    """The shifts of all features from the ``first`` to the ``second`` split, the largest shift first.

    ``rows`` are the numbers of samples, ``mismatches`` are differences of the preprocessing in words. An effect of
    ``detectable`` would have been shown with 90% probability. ``target_classes`` is the number of classes.
    ``concept`` compares the relation of inputs and targets; None if there is no single target, or if the preprocessing
    differs.
    """

    first: str
    second: str
    rows: tuple[int, int]
    shifts: tuple[FeatureShift, ...]
    mismatches: tuple[str, ...] = ()
    classifier: DomainClassifier | None = None
    detectable: float = 1.0
    target_classes: int = 0
    concept: ConceptShift | None = None

    @property
    def title(self) -> str:
        """The names of both splits."""
        return f"{self.first} to {self.second}"

    @property
    def shifted_features(self) -> list[FeatureShift]:
        """The shifted features and targets."""
        return [shift for shift in self.shifts if shift.is_shifted]

    @property
    def label_shift(self) -> FeatureShift | None:
        """The shift of the target; None without one target."""
        targets = [shift for shift in self.shifts if shift.role == "target"]
        return targets[0] if len(targets) == 1 else None

    @property
    def power_text(self) -> str:
        """The smallest shift that would have been shown, in words."""
        shift = normal_shift_of_ks_distance(self.detectable)
        if self.detectable >= 1:
            return "no shift could have been shown"
        return f"a shift of {shift:.2g} sd (KS {self.detectable:.2g}) would have been shown with 90% probability"

    @property
    def faults(self) -> list[str]:
        """The differences in words; other preprocessing explains shifts of the inputs."""
        shifted = [shift for shift in self.shifted_features if shift.role == "target" or not self.mismatches]
        result = [f"preprocessing of {self.second}: {text}" for text in self.mismatches]
        result += [
            f"drift from {self.title}: {shift.title}, {shift.effect_name} {shift.distance.effect:.2g} ({shift.size})"
            for shift in shifted[:3]
        ]
        hidden = len(shifted) - 3
        result += [f"drift from {self.title}: {hidden} more features"] if hidden > 0 else []
        if not result and self.classifier is not None and self.classifier.tells_splits_apart:
            result.append(f"a classifier tells {self.first} from {self.second}: {self.classifier}")
        if self.concept is not None and self.concept.is_shifted:
            result.append(f"the relation of inputs and targets differs: {self.concept_text}")
        return result

    @property
    def concept_text(self) -> str:
        """The errors of learners of both splits, in words; "" without them."""
        return "" if self.concept is None else self.concept.describe(self.first, self.second)

    @property
    def kind_text(self) -> str:
        """What shifted: the inputs, the targets, or their relation; "" if that is not known."""
        if self.concept is None or not self.concept.is_decidable:
            return ""
        roles = {shift.role for shift in self.shifted_features}
        has_inputs = "input" in roles or (self.classifier is not None and self.classifier.tells_splits_apart)
        kinds = {
            "covariate shift": has_inputs,
            "label shift": "target" in roles,
            "concept shift": self.concept.is_shifted,
        }
        return " and ".join(name for name, is_present in kinds.items() if is_present) or "no shift"


def compare_splits(
    setup: Setup, tables: dict[str, SplitTable], splits: tuple[str, str], titles: tuple[str, str], names: Sequence[str]
) -> SplitComparison | None:
    """Compare two splits; None if either has fewer than 20 rows. ``names`` are those of the inputs."""
    first, second = tables[splits[0]], tables[splits[1]]
    if min(len(first), len(second)) < _MIN_ROWS:
        return None
    columns = [comparison_columns(table, names, setup.feature_names) for table in (first, second)]
    paired = [
        (one, other)
        for one, other in zip(*columns, strict=False)
        if one.title == other.title and one.is_category == other.is_category
    ]
    shifts = judge_shifts([compare_columns(one, other) for one, other in paired])
    shifts.sort(key=lambda shift: (not shift.is_shifted, -np.nan_to_num(shift.distance.effect)))
    rows = (len(first), len(second))
    shared = share_features((first, second), (columns[0], columns[1]))
    mismatches = tuple(_find_mismatches(setup, first, second, columns, titles))
    classifier, concept = None, None
    if shared is not None:
        classifier, scores = fit_domain_classifier(shared)
        if not mismatches:  # a learner of other preprocessing fails anyway
            parts, similarity = (shared.first, shared.second), 1 - scores[len(shared.first) :]
            concept = measure_concept_shift((first, second), parts, shared.rows, similarity)
    return SplitComparison(
        *titles,
        rows,
        tuple(shifts),
        mismatches,
        classifier,
        detectable_ks_distance(*rows, LEVEL / max(len(shifts), 1)),
        _count_classes(first, second),
        concept,
    )


def _count_classes(first: SplitTable, second: SplitTable) -> int:
    labels = [table.labels.tolist() for table in (first, second) if table.labels is not None]
    return len(set().union(*labels))


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


def judge_shifts(shifts: Sequence[FeatureShift]) -> list[FeatureShift]:
    """Mark the shifts that are significant at the false discovery rate and not negligible."""
    significant = significant_values(np.array([shift.distance.p for shift in shifts], np.float64), LEVEL)
    return [
        replace(shift, is_shifted=bool(is_significant) and shift.distance.effect >= _MIN_EFFECT)
        for shift, is_significant in zip(shifts, significant, strict=True)
    ]


def _find_mismatches(
    setup: Setup,
    first: SplitTable,
    second: SplitTable,
    columns: Sequence[Sequence[FeatureColumn]],
    titles: tuple[str, str],
) -> list[str]:
    """Return the differences of the preprocessing in words."""
    tables = {"train": first, "val": second}
    units = _measure_units(setup, tables)
    texts = []
    if any(part.are_channels_reversed for part in units):
        texts.append("the channels of {second} are in reverse order, such as BGR for RGB")
    if any(part.column_order for part in units):
        texts.append("the columns of {second} are in another order")
    for one, other in zip(first.inputs, second.inputs, strict=False):
        texts.append(describe_orientation(one, other))
        shapes = [tuple(part.shape[1:]) for part in (one, other)]
        if one.dim() == other.dim() == 4 and shapes[0] != shapes[1] and sorted(shapes[0]) == sorted(shapes[1]):
            texts.append("the axes of {second} are in another order, such as channels last for channels first")
    texts.append(describe_scaling(*columns))
    return [text.format(first=titles[0], second=titles[1]) for text in texts if text]


def _measure_units(setup: Setup, tables: dict[str, SplitTable]) -> list[UnitComparison]:
    try:
        units: list[UnitComparison] = Measurements(setup, tables=tables)["unit_comparisons"]
    except (NotChecked, SetupError):
        return []
    return units
