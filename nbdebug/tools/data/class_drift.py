"""Drift within the classes: a shift of the inputs of one class only, which the other classes hide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.statistics.power import detectable_ks_distance
from nbdebug.tools.data.comparison_features import FeatureColumn
from nbdebug.tools.data.feature_shift import FeatureShift, compare_columns, describe_power, judge_shifts

CLASS_LEVEL = 0.001
_MIN_ROWS, _MAX_ROWS = 20, 2000  # of a class in each split
_MAX_COMPARISONS, _MAX_LISTED = 2000, 3
_Rows = NDArray[np.int64]


@dataclass(frozen=True)
class ClassShifts:
    """The shifts of the inputs within one class, the largest first; ``rows`` are its samples in both splits."""

    name: str
    rows: tuple[int, int]
    shifts: tuple[FeatureShift, ...]

    @property
    def shifted_features(self) -> list[FeatureShift]:
        """The features that are shifted within the class."""
        return [shift for shift in self.shifts if shift.is_shifted]


@dataclass(frozen=True)
class ClassDrift:
    """The shifts within each class that was compared, shifted classes first.

    A shift is significant at a false discovery rate of 0.1% over all classes and features. An effect of ``detectable``
    in the smallest class would have been shown with 90% probability. ``omitted`` is the number of classes that were not
    compared: those with fewer than 20 samples in a split, and the rarest if there are many features.
    """

    classes: tuple[ClassShifts, ...]
    omitted: int
    detectable: float

    @property
    def shifted_classes(self) -> list[ClassShifts]:
        """The classes with a shifted feature."""
        return [item for item in self.classes if item.shifted_features]

    @property
    def is_shifted(self) -> bool:
        """True if a feature is shifted within a class."""
        return bool(self.shifted_classes)

    @property
    def power_text(self) -> str:
        """The smallest shift within a class that would have been shown, in words."""
        return describe_power(self.detectable, " within the smallest class")

    def describe(self, effects: Mapping[str, float]) -> Iterator[str]:
        """Yield a text for each shifted class.

        ``effects`` are those of the features that are shifted over all classes. Such a feature counts only in classes
        in which its effect is more than twice as large.
        """
        own = [
            (
                item,
                [shift for shift in item.shifted_features if shift.distance.effect > 2 * effects.get(shift.title, 0)],
            )
            for item in self.classes
        ]
        shifted = [(item, shifts) for item, shifts in own if shifts]
        for item, shifts in shifted[:_MAX_LISTED]:
            more = f", and {len(shifts) - 1} more features" if len(shifts) > 1 else ""
            yield f"within {item.name}: {shifts[0].text}{more}"
        if len(shifted) > _MAX_LISTED:
            yield f"within {len(shifted) - _MAX_LISTED} more classes"


def compare_classes(
    tables: tuple[SplitTable, SplitTable],
    columns: Sequence[tuple[FeatureColumn, FeatureColumn]],
    class_names: Sequence[str] | None,
) -> ClassDrift | None:
    """Compare the inputs of both splits within each class; None without classes, or if none has enough samples.

    ``columns`` are the features of both splits. At most 2,000 samples of a class are compared, drawn at random.
    """
    labels = [table.labels for table in tables]
    inputs = [pair for pair in columns if pair[0].role == "input"]
    if labels[0] is None or labels[1] is None or not inputs:
        return None
    sides = [side.numpy() for side in labels if side is not None]
    known = sorted({int(value) for side in sides for value in np.unique(side) if value >= 0})  # others are ignored
    generator = np.random.default_rng(0)
    rows = {label: tuple(np.flatnonzero(side == label) for side in sides) for label in known}
    chosen = sorted(
        (label for label in known if min(map(len, rows[label])) >= _MIN_ROWS),
        key=lambda label: -min(map(len, rows[label])),
    )[: max(_MAX_COMPARISONS // len(inputs), 1)]
    if not chosen:
        return None
    drawn = {label: [generator.permutation(side)[:_MAX_ROWS] for side in rows[label]] for label in chosen}
    shifts = judge_shifts([_compare_within(pair, drawn[label]) for label in chosen for pair in inputs], CLASS_LEVEL)
    classes = []
    for number, label in enumerate(chosen):
        own = shifts[number * len(inputs) : (number + 1) * len(inputs)]
        own.sort(key=lambda shift: (not shift.is_shifted, -np.nan_to_num(shift.distance.effect)))
        name = class_names[label] if class_names is not None and label < len(class_names) else str(label)
        sizes = len(rows[label][0]), len(rows[label][1])
        classes.append(ClassShifts(f"class {name}", sizes, tuple(own)))
    classes.sort(key=lambda item: (not item.shifted_features, -np.nan_to_num(item.shifts[0].distance.effect)))
    first, second = min(drawn.values(), key=lambda sides: min(map(len, sides)))
    detectable = detectable_ks_distance(len(first), len(second), CLASS_LEVEL / len(shifts))
    return ClassDrift(tuple(classes), len(known) - len(chosen), detectable)


def _compare_within(pair: tuple[FeatureColumn, FeatureColumn], rows: Sequence[_Rows]) -> FeatureShift:
    """Return the distance of one feature between the rows of one class in both splits."""
    first, second = (replace(column, values=column.values[own]) for column, own in zip(pair, rows, strict=True))
    return compare_columns(first, second)
