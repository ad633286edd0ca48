"""Drift over time: windows of one split in the order of its dataset, each compared with the other samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.statistics.power import detectable_ks_distance
from nbdebug.tools.data.comparison_features import FeatureColumn, comparison_columns
from nbdebug.tools.data.feature_shift import LEVEL, FeatureShift, compare_columns, describe_power, judge_shifts

_MIN_ROWS = 20  # in each window


@dataclass(frozen=True)
class FeatureOverWindows:
    """One feature in each window compared with all other samples, in the order of the windows."""

    windows: tuple[FeatureShift, ...]

    @property
    def title(self) -> str:
        """The role and the name of the feature."""
        return self.windows[0].title

    @property
    def effects(self) -> list[float]:
        """The effect in each window: Kolmogorov-Smirnov distance, or Cramér's V."""
        return [shift.distance.effect for shift in self.windows]

    @property
    def shifted_windows(self) -> list[int]:
        """The numbers of the windows that differ from the other samples, from 1."""
        return [number for number, shift in enumerate(self.windows, 1) if shift.is_shifted]


@dataclass(frozen=True)
class WindowDrift:
    """The features of the windows of the training split, the features with the largest effect first.

    ``rows`` are the numbers of samples of the windows. An effect of ``detectable`` would have been shown with 90%
    probability.
    """

    features: tuple[FeatureOverWindows, ...]
    rows: tuple[int, ...]
    detectable: float

    @property
    def is_decidable(self) -> bool:
        """True if all windows have enough samples."""
        return min(self.rows) >= _MIN_ROWS

    @property
    def shifted_features(self) -> list[FeatureOverWindows]:
        """The features that differ in a window."""
        return [feature for feature in self.features if feature.shifted_windows]

    @property
    def faults(self) -> list[str]:
        """The features that drift, in words."""
        shifted = self.shifted_features
        texts = [
            f"drift over the {len(self.rows)} windows of training: {feature.title}, most in window "
            f"{int(np.nanargmax(feature.effects)) + 1} ({feature.windows[0].effect_name} "
            f"{np.nanmax(feature.effects):.2g}); {len(feature.shifted_windows)} of {len(self.rows)} windows differ"
            for feature in shifted[:3]
        ]
        hidden = len(shifted) - 3
        return [*texts, *([f"drift over the windows of training: {hidden} more features"] if hidden > 0 else [])]

    @property
    def power_text(self) -> str:
        """The smallest shift of one window that would have been shown, in words."""
        return describe_power(self.detectable, " of one window")


def compare_windows(
    table: SplitTable, count: int, input_names: Sequence[str], column_names: Sequence[str] | None
) -> WindowDrift:
    """Compare ``count`` windows of equally many samples; without features if a window has fewer than 20.

    The windows follow the dataset index, which is the order of time if the dataset is ordered by it. A window is
    shifted at the false discovery rate over all features and windows.
    """
    order = np.argsort(np.asarray(table.indices), kind="stable")
    windows = np.array_split(order, count)
    rows = tuple(map(len, windows))
    if min(rows) < _MIN_ROWS:
        return WindowDrift((), rows, 1.0)
    columns = comparison_columns(table, input_names, column_names)
    shifts = [[_compare_window(column, window) for window in windows] for column in columns]
    judged = judge_shifts([shift for feature in shifts for shift in feature])
    features = [FeatureOverWindows(tuple(judged[start : start + count])) for start in range(0, len(judged), count)]
    features.sort(key=lambda item: (not item.shifted_windows, -float(np.max(np.nan_to_num(item.effects)))))
    detectable = detectable_ks_distance(min(rows), len(order) - min(rows), LEVEL / max(len(judged), 1))
    return WindowDrift(tuple(features), rows, detectable)


def _compare_window(column: FeatureColumn, window: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FeatureShift:
    """Return the distance of the samples of a window from all others."""
    is_inside = np.zeros(len(column.values), bool)
    is_inside[window] = True
    others, own = (replace(column, values=column.values[rows]) for rows in (~is_inside, is_inside))
    return compare_columns(others, own)
