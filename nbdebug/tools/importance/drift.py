"""Drift of feature importance between epochs or windows of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.result import Result
from nbdebug.statistics.estimates import (
    Estimates,
    difference_estimates,
    jackknife_error,
    mean_estimates,
    rank_correlation,
    significant_values,
)
from nbdebug.tools.importance.data import ImportanceData
from nbdebug.validation import validate_choice
from nbdebug.validation import validate_names as listed

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.importance.data import ImportanceData
    from nbdebug.tools.importance.view import DriftView
    from nbdebug.views.page import View

_Floats = NDArray[np.float64]
By = Literal["share", "size", "drop"]
_MEASURE_NAMES = {"share": "share of all attribution", "size": "mean |SHAP|", "drop": "permutation importance"}


@dataclass(frozen=True)
class _DriftMeasure:
    """One number per feature at each point, points × features with interval ends, and the change.

    ``change`` is from the first point to the last; ``significant`` marks significant changes (Benjamini and Hochberg,
    false discovery rate 5%); ``rank_correlation`` is Spearman's correlation of the first and the last point.
    """

    value: _Floats
    low: _Floats
    high: _Floats
    change: Estimates
    significant: NDArray[np.bool_]
    rank_correlation: float


def _match_samples(
    first_importance: ImportanceData, other: ImportanceData, first_columns: Sequence[int], other_columns: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return matching rows with equal values; None if fewer than 90% match."""
    if first_importance.keys is None or other.keys is None:
        if not np.array_equal(first_importance.inputs[:, first_columns], other.inputs[:, other_columns]):
            return None
        rows = np.arange(len(first_importance))
        return rows, rows
    _, first, second = np.intersect1d(first_importance.keys, other.keys, return_indices=True)
    is_same = (first_importance.inputs[first][:, first_columns] == other.inputs[second][:, other_columns]).all(1)
    min_matches = 0.9 * max(len(first_importance), len(other))
    return (first[is_same], second[is_same]) if is_same.sum() >= max(min_matches, 2) else None


_MatchedRows = tuple[NDArray[np.int64], NDArray[np.int64]] | None


def _measure_drift(
    name: str, importances: Sequence[ImportanceData], columns: Sequence[Sequence[int]], rows: _MatchedRows
) -> _DriftMeasure:
    """Compute one measure at all points."""
    points = [
        _point_values(name, item, point_columns) for item, point_columns in zip(importances, columns, strict=True)
    ]
    point_estimates = [
        _select_drops(item, point_columns)
        if name == "drop"
        else mean_estimates(value, influence, jackknife_error(parts), _part_count(parts))
        for item, point_columns, (value, influence, parts) in zip(importances, columns, points, strict=True)
    ]
    change = _change_estimates(
        points[0], points[-1], rows, importances[0].background_fingerprint == importances[-1].background_fingerprint
    )
    value, low, high = (np.stack([getattr(item, end) for item in point_estimates]) for end in ("value", "low", "high"))
    return _DriftMeasure(value, low, high, change, significant_values(change.p), rank_correlation(value[0], value[-1]))


def _select_drops(importance: ImportanceData, columns: Sequence[int]) -> Estimates:
    """Select the drops of some features."""
    return Estimates(*(getattr(importance.metric_drop, end)[columns] for end in ("value", "low", "high", "p")))


_PointValues = tuple[
    _Floats, _Floats, "_Floats | None"
]  # values, contributions of each sample, values without each background part


def _point_values(name: str, importance: ImportanceData, columns: Sequence[int]) -> _PointValues:
    """Compute one measure of some features at one point."""
    if name == "drop":
        return importance.drop[columns], importance.influence[:, columns], None
    values, parts = np.abs(importance.attributions_or_nan)[:, columns], importance.sizes_without_each_part
    parts = None if parts is None else parts[:, columns]
    mean = values.mean(0)
    if name == "size":
        return mean, values - mean, parts
    total = mean.sum()
    influence = (values - mean - (values.sum(1, keepdims=True) - total) * (mean / total)) / total
    return mean / total, influence, None if parts is None else parts / parts.sum(1, keepdims=True)


def _part_count(parts: _Floats | None) -> int:
    """Return the number of background parts."""
    return 0 if parts is None else len(parts)


def _change_estimates(first: _PointValues, last: _PointValues, rows: _MatchedRows, same_background: bool) -> Estimates:
    """Return the last point minus the first, paired by samples and background parts if these are the same."""
    change = last[0] - first[0]
    error, count = _background_error(first[2], last[2], same_background)
    complete = rows is not None and all(len(rows[i]) and rows[i].max() < len(p[1]) for i, p in enumerate((first, last)))
    if rows is not None and complete:
        return mean_estimates(change, last[1][rows[1]] - first[1][rows[0]], error, count)
    return difference_estimates(change, first[1], last[1], error, count)


def _background_error(
    first_parts: _Floats | None, last_parts: _Floats | None, same_background: bool
) -> tuple[_Floats | None, int]:
    """Return the background's part of the standard error of a difference."""
    if first_parts is None or last_parts is None:
        return jackknife_error(first_parts if last_parts is None else last_parts), _part_count(
            first_parts if last_parts is None else last_parts
        )
    if same_background and len(first_parts) == len(last_parts):
        return jackknife_error(last_parts - first_parts), len(first_parts)
    first, last_error = jackknife_error(first_parts), jackknife_error(last_parts)
    assert first is not None
    assert last_error is not None
    return np.hypot(first, last_error), min(len(first_parts), len(last_parts))


@dataclass(frozen=True, eq=False)
class Drift(Result):
    """Importances of the same features at several points.

    ``measures`` maps "share", "size" and "drop", as far as available, to their values; ``by`` is the one that is
    reported. ``paired`` is True if the first and last point have the same samples, which are then compared in pairs.
    """

    names: tuple[str, ...]
    features: tuple[str, ...]
    measures: dict[str, _DriftMeasure] = field(repr=False)
    by: str = "share"
    paired: bool = False
    notes: tuple[str, ...] = ()
    title: str = "Importance drift"

    @property
    def measure(self) -> _DriftMeasure:
        """The reported measure."""
        return self.measures[self.by]

    @property
    def headline(self) -> str:
        """The largest change, and the number of significant changes."""
        measure = self.measure
        count, largest = int(measure.significant.sum()), self.order[0]
        samples = "the same samples" if self.paired else "different samples"
        ranks = "" if np.isnan(measure.rank_correlation) else f"; rank correlation {measure.rank_correlation:.2f}"
        if not count:
            return (
                f"no significant change of the {_MEASURE_NAMES[self.by]} of {len(self.features)} features "
                f"({samples}){ranks}"
            )
        largest_change = measure.change.value[largest]
        return (
            f"{_MEASURE_NAMES[self.by]} of {count} of {len(self.features)} features changed significantly ({samples}); "
            f"largest change: {self.features[largest]}, {largest_change:+.3g}{ranks}"
        )

    @property
    def order(self) -> NDArray[np.int64]:
        """Feature indices, significant changes first, then by size of the change."""
        measure = self.measure
        return np.lexsort((-np.abs(np.nan_to_num(measure.change.value)), ~measure.significant))

    def to_frame(self) -> pandas.DataFrame:
        """One row per feature: its value at each point, the change with its interval, and its significance."""
        import pandas as pd

        measure = self.measure
        frame = pd.DataFrame({"feature": self.features})
        for i, name in enumerate(self.names):
            frame[name] = measure.value[i]
        change = measure.change
        frame = frame.assign(
            change=change.value, low=change.low, high=change.high, p=change.p, told=measure.significant
        )
        return frame.iloc[self.order].reset_index(drop=True)

    def view(self) -> View:
        """Return the page: two dots per feature and a line between them, or a line per feature."""
        return _drift_view(self)

    def draw(self, ax: Axes) -> None:
        """Draw a line per feature."""
        _draw_drift(self, ax)

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug importance: {self.headline}"]
        measure = self.measure
        width = min(max(map(len, self.features)), 32)
        for j in self.order[:10].tolist():
            values_text = " → ".join(f"{item:.3g}" for item in measure.value[:, j])
            change, low, high = (float(getattr(measure.change, name)[j]) for name in ("value", "low", "high"))
            change_text = f"{change:+.3g} ({low:+.3g} to {high:+.3g}){' *' if measure.significant[j] else ''}"
            lines.append(f"  {self.features[j][:width]:{width}}  {values_text:24} {change_text}")
        return "\n".join([*lines, *(f"  note: {item}" for item in self.notes)])


def drift(found: Sequence[ImportanceData], names: Sequence[str] | None = None, *, by: By = "share") -> Drift:
    """Compare the importances of two or more points; ``by`` share of attribution, its size, or permutation importance.

    The first and the last point are compared sample by sample if they have the same samples. Raises SetupError for
    fewer than two points, a wrong number of names, and importances without common features.
    """
    if not isinstance(found, Sequence) or not all(isinstance(item, ImportanceData) for item in found):
        raise SetupError(f"found is {type(found).__name__}; expected a list of importances. Pass [before, now].")
    if len(found) < 2:
        raise SetupError(f"there is {len(found)} importance; expected two or more. Pass [before, now].")
    point_names = tuple(map(str, range(1, len(found) + 1))) if names is None else tuple(listed("names", names))
    if len(point_names) != len(found):
        raise SetupError(f"names has {len(point_names)} entries; expected {len(found)}, one each. Pass as many names.")
    common = [item for item in _feature_keys(found[0]) if all(item in _feature_keys(other) for other in found[1:])]
    if not common:
        raise SetupError("the importances have no feature in common; expected the same inputs. Use the same features.")
    columns = [[_feature_keys(item).index(key) for key in common] for item in found]
    rows = _match_samples(found[0], found[-1], columns[0], columns[-1])
    all_measures = {name: _measure_drift(name, found, columns, rows) for name in _MEASURE_NAMES}
    measures = {name: item for name, item in all_measures.items() if np.isfinite(item.change.value).any()}
    validate_choice("by", by, measures or ["none, as no measure is available for both"])
    return Drift(
        point_names,
        tuple(name for _, name in common),
        measures,
        by,
        rows is not None,
        tuple(_difference_notes(found, common)),
    )


def _feature_keys(importance: ImportanceData) -> list[tuple[str, str]]:
    """Return the features by input and name."""
    return [(feature.input, feature.name) for feature in importance.features]


def _difference_notes(importances: Sequence[ImportanceData], common: Sequence[object]) -> list[str]:
    """Return notes on differences between the points."""
    lines = []
    for attribute in ("method", "space", "target", "metric"):
        values = list(dict.fromkeys(str(getattr(item, attribute)) for item in importances))
        if len(values) > 1:
            lines.append(f"{attribute} differs: {', '.join(values)}")
    missing = max(len(item.features) for item in importances) - len(common)
    return [*lines, *([f"features missing in at least one importance: {missing}"] if missing else [])]


def _drift_view(drift: Drift) -> DriftView:
    """Return the page of a drift."""
    from nbdebug.tools.importance.view import DriftView

    return DriftView(
        title=drift.title,
        headline=drift.headline,
        notes=drift.notes,
        names=drift.names,
        by=drift.by,
        features=drift.features,
        measures={name: _measure_state(measure) for name, measure in drift.measures.items()},
    )


def _measure_state(measure: _DriftMeasure) -> dict[str, Any]:
    """Return one measure, feature by feature."""
    from nbdebug.formatting import round_number, round_numbers
    from nbdebug.tools.importance.presentation import SIGNIFICANT_DIGITS

    change = np.stack([measure.change.value, measure.change.low, measure.change.high], 1)
    intervals = np.stack([measure.value, measure.low, measure.high], 2)
    return {
        "points": round_numbers(intervals.swapaxes(0, 1), SIGNIFICANT_DIGITS),
        "change": round_numbers(change, SIGNIFICANT_DIGITS),
        "told": measure.significant.tolist(),
        "ranks": round_number(measure.rank_correlation, SIGNIFICANT_DIGITS),
    }


def _draw_drift(drift: Drift, ax: Axes) -> None:
    """Draw a line per feature, with significant changes in color."""
    from nbdebug.tools.importance.presentation import MAX_BARS

    measure, x = drift.measure, range(len(drift.names))
    for j in drift.order[:MAX_BARS][::-1].tolist():
        style = {"color": None, "label": drift.features[j]} if measure.significant[j] else {"color": "0.75"}
        errors = np.nan_to_num(
            np.maximum([measure.value[:, j] - measure.low[:, j], measure.high[:, j] - measure.value[:, j]], 0)
        )
        ax.errorbar(x, measure.value[:, j], yerr=errors, marker="o", capsize=2, **style)
    ax.set_xticks(list(x), drift.names)
    ax.set(ylabel=drift.by, title=drift.headline.split(" (")[0])
    if measure.significant.any():
        ax.legend()
