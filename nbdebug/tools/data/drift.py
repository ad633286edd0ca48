"""Drift between splits as a result: effect sizes first, p-values second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.result import Result
from nbdebug.tools.data.class_drift import ClassDrift, ClassShifts
from nbdebug.tools.data.drift_data import SplitComparison
from nbdebug.tools.data.drift_windows import FeatureOverWindows, WindowDrift
from nbdebug.tools.data.feature_shift import LEVEL, FeatureShift
from nbdebug.views.table import Cell, CellTag, Column, FoldableTable, TableRow, TextCell

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_MAX_ROWS, _MAX_TEXT_ROWS, _MAX_BARS = 200, 10, 20
_MAX_CLASSES, _MAX_CLASS_FEATURES = 30, 5
_COLUMNS = (
    Column("feature"),
    Column("shift", hint="Significant and not negligible."),
    Column("effect", "bar", "Kolmogorov-Smirnov distance of numbers, Cramér's V of categories."),
    Column("Wasserstein (sd)", "number", "Wasserstein distance in standard deviations of the first split."),
    Column("Jensen-Shannon", "number", "Jensen-Shannon divergence in bits, from 0 to 1."),
    Column("PSI", "number", "Population stability index."),
    Column("mean shift (sd)", "number"),
    Column("p", "number", "Of the two-sample test, before the correction for many tests."),
)


@dataclass(frozen=True, eq=False)
class DataDrift(Result):
    """The comparisons of the splits: training with validation, and the reference with training.

    ``windows`` compares windows of the training split, if they were asked for.
    """

    comparisons: tuple[SplitComparison, ...]
    windows: WindowDrift | None = None

    @property
    def faults(self) -> list[str]:
        """The differences in words."""
        texts = [text for comparison in self.comparisons for text in comparison.faults]
        return [*texts, *(self.windows.faults if self.windows is not None else ())]

    @property
    def headline(self) -> str:
        """The number of shifted features of each comparison."""
        texts = [
            f"from {item.title}, {len(item.shifted_features)} of {len(item.shifts)} features are shifted"
            f"{f', and the preprocessing differs: {item.mismatches[0]}' if item.mismatches else ''}"
            for item in self.comparisons
        ]
        if self.windows is not None and self.windows.is_decidable:
            count, total = len(self.windows.shifted_features), len(self.windows.features)
            texts.append(f"over {len(self.windows.rows)} windows of training, {count} of {total} features are shifted")
        return "; ".join(texts) or "there are no two splits of rows to compare"

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per comparison and feature, with the effect sizes and p-values."""
        import pandas as pd

        return pd.DataFrame([_frame_row(item, shift) for item in self.comparisons for shift in item.shifts])

    def draw(self, ax: Axes) -> None:
        """Draw the effects of the first comparison as bars, with the smallest effect that would have been shown."""
        from nbdebug.views.images import named_bars

        if not self.comparisons:
            return
        comparison = self.comparisons[0]
        shifts = comparison.shifts[:_MAX_BARS]
        colors = ["tab:orange" if shift.is_shifted else "0.7" for shift in shifts]
        effects = np.nan_to_num([shift.distance.effect for shift in shifts])
        named_bars(ax, [shift.title for shift in shifts], effects, color=colors)
        ax.axvline(comparison.detectable, color="gray", linestyle="--", label="shown with 90% probability")
        ax.set(xlabel="effect (KS or Cramér's V)", title=f"drift from {comparison.title}")
        ax.legend()

    def tables(self) -> list[FoldableTable]:
        """Return a table for each comparison, those of the classes, and one of the windows."""
        tables = [_shift_table(comparison) for comparison in self.comparisons]
        tables += [_class_table(item.title, item.classes) for item in self.comparisons if item.classes is not None]
        if self.windows is not None and self.windows.is_decidable:
            tables.append(_window_table(self.windows))
        return tables

    def view(self) -> View:
        """Return the table of the comparisons, one below the other; that of the windows if there are none."""
        if len(self.comparisons) < 2 and (tables := self.tables()):
            return tables[0]
        rows = [row for item in self.comparisons for row in (TableRow(item.title), *_shift_rows(item, level=1))]
        return FoldableTable(title="Drift", status=self.headline, columns=_COLUMNS, rows=rows, noun="features")

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug drift: {self.headline}", *(f"  - {text}" for text in self.faults)]
        for comparison in self.comparisons:
            lines.append(f"  {comparison.title} ({comparison.rows[0]:,} and {comparison.rows[1]:,} samples):")
            lines += [f"    {_shift_text(shift)}" for shift in comparison.shifts[:_MAX_TEXT_ROWS]]
            hidden = len(comparison.shifts) - _MAX_TEXT_ROWS
            lines += [f"    … and {hidden} more features"] if hidden > 0 else []
            lines += [f"    {note}" for note in _notes(comparison)]
        if self.windows is not None and self.windows.is_decidable:
            lines.append(f"  {len(self.windows.rows)} windows of training:")
            lines += [f"    {_window_text(feature)}" for feature in self.windows.features[:_MAX_TEXT_ROWS]]
            lines.append(f"    {self.windows.power_text}")
        return "\n".join(lines)


def _window_table(drift: WindowDrift) -> FoldableTable:
    """Return the effects of all features in each window."""
    columns = [Column("feature"), Column("shifted in")]
    columns += [Column(f"window {number}", "bar", f"{rows:,} samples") for number, rows in enumerate(drift.rows, 1)]
    rows = [
        TableRow(
            feature.title,
            [
                [CellTag(f"window {number}", "warning") for number in feature.shifted_windows],
                *(TextCell(f"{effect:.3g}", _number(effect)) for effect in feature.effects),
            ],
        )
        for feature in drift.features[:_MAX_ROWS]
    ]
    note = "The windows follow the order of the dataset; the effect is the distance from all other samples"
    return FoldableTable(
        title="Drift within training",
        status=f"{len(drift.rows)} windows, {sum(drift.rows):,} samples",
        columns=columns,
        rows=rows,
        note=f"{note}. {drift.power_text[0].upper()}{drift.power_text[1:]}.",
        noun="features",
    )


def _class_table(title: str, drift: ClassDrift) -> FoldableTable:
    """Return the classes with their features below them."""
    rows = []
    for item in drift.classes[:_MAX_CLASSES]:
        count = len(item.shifted_features)
        tags = [CellTag(f"{count} feature{'s' if count > 1 else ''}", "warning")] if count else []
        rows.append(TableRow(item.name, [tags, *[None] * (len(_COLUMNS) - 2)], details=[("samples", _rows_text(item))]))
        rows += [_shift_row(shift, level=1) for shift in item.shifts[:_MAX_CLASS_FEATURES]]
    omitted = f" {drift.omitted:,} classes are not compared: they have few samples." if drift.omitted else ""
    note = "A shift within a class is significant at a false discovery rate of 0.1% over all classes and features"
    return FoldableTable(
        title=f"Drift within the classes from {title}",
        status=f"{len(drift.shifted_classes):,} of {len(drift.classes):,} classes",
        columns=_COLUMNS,
        rows=rows,
        note=f"{note}. {drift.power_text[0].upper()}{drift.power_text[1:]}.{omitted}",
        noun="classes and features",
    )


def _rows_text(item: ClassShifts) -> str:
    return f"{item.rows[0]:,} and {item.rows[1]:,}"


def _window_text(feature: FeatureOverWindows) -> str:
    effects = ", ".join(f"{effect:.2g}" for effect in feature.effects)
    shifted = f" (shifted in window {', '.join(map(str, feature.shifted_windows))})" if feature.shifted_windows else ""
    return f"{feature.title}: {feature.windows[0].effect_name} {effects}{shifted}"


def _frame_row(comparison: SplitComparison, shift: FeatureShift) -> dict[str, object]:
    return {
        "first": comparison.first,
        "second": comparison.second,
        "role": shift.role,
        "feature": shift.name,
        "measure": shift.effect_name,
        **vars(shift.distance),
        "missing_first": shift.missing[0],
        "missing_second": shift.missing[1],
        "shifted": shift.is_shifted,
    }


def _shift_table(comparison: SplitComparison) -> FoldableTable:
    texts = [f"preprocessing: {text}" for text in comparison.mismatches]
    return FoldableTable(
        title=f"Drift from {comparison.title}",
        status=f"{comparison.rows[0]:,} and {comparison.rows[1]:,} samples",
        columns=_COLUMNS,
        rows=_shift_rows(comparison),
        notice=("; ".join(texts), "warning") if texts else ("", ""),
        note=" ".join(f"{note[0].upper()}{note[1:]}." for note in _notes(comparison)),
        noun="features",
    )


def _shift_rows(comparison: SplitComparison, level: int = 0) -> list[TableRow]:
    return [_shift_row(shift, level) for shift in comparison.shifts[:_MAX_ROWS]]


def _shift_row(shift: FeatureShift, level: int) -> TableRow:
    distance = shift.distance
    effect = TextCell(f"{shift.effect_name} {distance.effect:.3g}", _number(distance.effect))
    tags = [CellTag(shift.size, "warning", f"{shift.effect_name} {distance.effect:.3g}")] if shift.is_shifted else []
    others = (distance.wasserstein, distance.jensen_shannon, distance.psi, distance.mean_shift, distance.p)
    cells: list[Cell] = [tags, effect, *map(_number, others)]
    details = [("missing", f"{shift.missing[0]:.1%} and {shift.missing[1]:.1%}")] if any(shift.missing) else []
    return TableRow(shift.title, cells, details=details, level=level)


def _number(value: float) -> float | None:
    return float(f"{value:.3g}") if np.isfinite(value) else None


def _shift_text(shift: FeatureShift) -> str:
    distance = shift.distance
    wasserstein = f", Wasserstein {distance.wasserstein:.3g} sd" if np.isfinite(distance.wasserstein) else ""
    mark = f" ({shift.size} shift)" if shift.is_shifted else ""
    return f"{shift.title}: {shift.effect_name} {distance.effect:.3g}{wasserstein}, PSI {distance.psi:.3g}{mark}"


def _notes(comparison: SplitComparison) -> Iterator[str]:
    yield (
        f"a shift is significant at a false discovery rate of {LEVEL:.1%} (Benjamini and Hochberg); equal splits give "
        "an alarm with at most 1% probability"
    )
    yield comparison.power_text
    if comparison.classifier is not None:
        yield f"domain classifier: {comparison.classifier}"
    if comparison.energy is not None:
        yield str(comparison.energy)
    if comparison.classes is not None:
        count = len(comparison.classes.shifted_classes)
        yield f"features are shifted within {count:,} of {len(comparison.classes.classes):,} classes"
    if comparison.kind_text:
        yield f"{comparison.kind_text}: {comparison.concept_text}"
