"""Compares the features, the labels and the preprocessing of two splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nbdebug.baselines.input_features import Matrix
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.split_statistics import UnitComparison
from nbdebug.setup import Setup
from nbdebug.statistics.power import detectable_ks_distance
from nbdebug.tools.data.class_drift import ClassDrift, compare_classes
from nbdebug.tools.data.comparison_features import FeatureColumn
from nbdebug.tools.data.concept_shift import ConceptShift, measure_concept_shift
from nbdebug.tools.data.domain_classifier import DomainClassifier, fit_domain_classifier, share_features
from nbdebug.tools.data.energy_distance import EnergyDistance, measure_energy_distance
from nbdebug.tools.data.feature_shift import LEVEL, FeatureShift, compare_columns, describe_power, judge_shifts
from nbdebug.tools.data.mismatch import describe_scaling
from nbdebug.tools.data.orientation import Orientation, compare_orientation

_MIN_ROWS = 20


@dataclass(frozen=True)
class SplitComparison:
    """The shifts of all features from the ``first`` to the ``second`` split, the largest shift first.

    ``rows`` are the numbers of samples, ``mismatches`` are differences of the preprocessing in words. An effect of
    ``detectable`` would have been shown with 90% probability. ``target_classes`` is the number of classes.
    ``concept`` compares the relation of inputs and targets; None if there is no single target, or if the preprocessing
    differs. ``classes`` compares the inputs within each class, and ``energy`` all features, or embeddings, at once.
    ``orientations`` are those of the inputs that are square images.
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
    classes: ClassDrift | None = None
    energy: EnergyDistance | None = None
    orientations: tuple[Orientation, ...] = ()

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
        return describe_power(self.detectable)

    @property
    def faults(self) -> list[str]:
        """The differences in words; other preprocessing explains shifts of the inputs."""
        shifted = [shift for shift in self.shifted_features if shift.role == "target" or not self.mismatches]
        result = [f"preprocessing of {self.second}: {text}" for text in self.mismatches]
        result += [f"drift from {self.title}: {shift.text}" for shift in shifted[:3]]
        hidden = len(shifted) - 3
        result += [f"drift from {self.title}: {hidden} more features"] if hidden > 0 else []
        if self.classes is not None and not self.mismatches:
            effects = {shift.title: shift.distance.effect for shift in self.shifted_features}
            result += [f"drift from {self.title} {text}" for text in self.classes.describe(effects)]
        if not result and self.classifier is not None and self.classifier.tells_splits_apart:
            result.append(f"a classifier tells {self.first} from {self.second}: {self.classifier}")
        if not result and self.energy is not None and self.energy.is_shifted:
            result.append(f"drift from {self.title}: {self.energy}")
        if self.concept is not None and self.concept.is_shifted:
            result.append(f"the relation of inputs and targets differs: {self.concept_text}")
        return result

    @property
    def concept_text(self) -> str:
        """The errors of learners of both splits, in words; "" without them."""
        return "" if self.concept is None else self.concept.describe(self.first, self.second)

    @property
    def _are_inputs_shifted(self) -> bool:
        """True if a test of all features at once, or within the classes, shows a shift."""
        are_separable = self.classifier is not None and self.classifier.tells_splits_apart
        return are_separable or any(test is not None and test.is_shifted for test in (self.classes, self.energy))

    @property
    def kind_text(self) -> str:
        """What shifted: the inputs, the targets, or their relation; "" if that is not known."""
        if self.concept is None or not self.concept.is_decidable:
            return ""
        roles = {shift.role for shift in self.shifted_features}
        has_inputs = "input" in roles or self._are_inputs_shifted
        kinds = {
            "covariate shift": has_inputs,
            "label shift": "target" in roles,
            "concept shift": self.concept.is_shifted,
        }
        return " and ".join(name for name, is_present in kinds.items() if is_present) or "no shift"


def compare_splits(
    setup: Setup,
    tables: dict[str, SplitTable],
    splits: tuple[str, str],
    titles: tuple[str, str],
    features: Mapping[str, Sequence[FeatureColumn]],
    embeddings: Mapping[str, Matrix] | None = None,
) -> SplitComparison | None:
    """Compare two splits; None if either has fewer than 20 rows.

    ``features`` are the columns of each split to compare. The energy distance is that of the ``embeddings`` of both
    splits, if there are any, else that of the features.
    """
    first, second = tables[splits[0]], tables[splits[1]]
    if min(len(first), len(second)) < _MIN_ROWS:
        return None
    columns = [features[split] for split in splits]
    paired = [
        (one, other)
        for one, other in zip(*columns, strict=False)
        if one.title == other.title and one.is_category == other.is_category
    ]
    shifts = judge_shifts([compare_columns(one, other) for one, other in paired])
    shifts.sort(key=lambda shift: (not shift.is_shifted, -np.nan_to_num(shift.distance.effect)))
    rows = (len(first), len(second))
    shared = share_features((first, second), (columns[0], columns[1]))
    orientations = _compare_orientations(first, second)
    mismatches = tuple(_find_mismatches(setup, first, second, columns, titles, orientations))
    classifier, concept, energy = None, None, None
    if embeddings is not None and set(splits) <= embeddings.keys():
        energy = measure_energy_distance(embeddings[splits[0]], embeddings[splits[1]], "embeddings")
    elif shared is not None:
        energy = measure_energy_distance(shared.first, shared.second, "features")
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
        compare_classes((first, second), paired, setup.class_names),
        energy,
        orientations,
    )


def _count_classes(first: SplitTable, second: SplitTable) -> int:
    labels = [table.labels.tolist() for table in (first, second) if table.labels is not None]
    return len(set().union(*labels))


def _find_mismatches(
    setup: Setup,
    first: SplitTable,
    second: SplitTable,
    columns: Sequence[Sequence[FeatureColumn]],
    titles: tuple[str, str],
    orientations: Sequence[Orientation],
) -> list[str]:
    """Return the differences of the preprocessing in words."""
    tables = {"train": first, "val": second}
    units = _measure_units(setup, tables)
    texts = []
    if any(part.are_channels_reversed for part in units):
        texts.append("the channels of {second} are in reverse order, such as BGR for RGB")
    if any(part.column_order for part in units):
        texts.append("the columns of {second} are in another order")
    texts += [item.text for item in orientations]
    for one, other in zip(first.inputs, second.inputs, strict=False):
        shapes = [tuple(part.shape[1:]) for part in (one, other)]
        if one.dim() == other.dim() == 4 and shapes[0] != shapes[1] and sorted(shapes[0]) == sorted(shapes[1]):
            texts.append("the axes of {second} are in another order, such as channels last for channels first")
    texts.append(describe_scaling(*columns))
    return [text.format(first=titles[0], second=titles[1]) for text in texts if text]


def _compare_orientations(first: SplitTable, second: SplitTable) -> tuple[Orientation, ...]:
    labels = first.labels, second.labels
    found = [compare_orientation(*pair, labels) for pair in zip(first.inputs, second.inputs, strict=False)]
    return tuple(item for item in found if item is not None)


def _measure_units(setup: Setup, tables: dict[str, SplitTable]) -> list[UnitComparison]:
    try:
        units: list[UnitComparison] = Measurements(setup, tables=tables)["unit_comparisons"]
    except (NotChecked, SetupError):
        return []
    return units
