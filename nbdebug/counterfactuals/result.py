"""Counterfactuals as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.counterfactuals.feature_space import CHOICE_DISTANCE, ROUNDING_SHARE, FeatureSpace, FeatureUnit, Floats
from nbdebug.counterfactuals.minimization import QueryBudget
from nbdebug.formatting import format_value
from nbdebug.nearest_neighbors import Floats as Singles
from nbdebug.nearest_neighbors import nearest_rows
from nbdebug.result import TextRepr

if TYPE_CHECKING:
    import pandas

_MAX_REFERENCE_SAMPLES = 500  # training samples used as reference for typical nearest-neighbor distances


@dataclass(frozen=True)
class FeatureChange:
    """A changed column or one-hot group.

    ``before`` and ``after`` are values, or names of the active column of a group. ``distance`` is in median absolute
    deviations; ``percentile`` is the share of training samples at or below the new value, and ``training_range`` their
    minimum and maximum, both None for a choice.
    """

    feature: str
    before: float | str
    after: float | str
    distance: float
    percentile: float | None = None
    training_range: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.feature} {format_value(self.before)} → {format_value(self.after)}"


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """A changed sample with another prediction.

    ``inputs`` are the model inputs; ``outputs`` their outputs when evaluated alone. ``decision`` is the class or
    number. ``nearest`` is the row of the nearest training sample, ``nearest_distance`` its distance, and ``farther``
    the share of training samples that are closer to their own nearest neighbor than this.
    """

    changes: tuple[FeatureChange, ...]
    distance: float
    decision: str
    inputs: Any = field(repr=False)
    outputs: Floats = field(repr=False)
    nearest: int = -1
    nearest_distance: float = 0.0
    farther: float = 0.0

    def __str__(self) -> str:
        return ", ".join(map(str, self.changes))


@dataclass(frozen=True, eq=False)
class Counterfactuals(TextRepr):
    """The smallest changes found for a sample; ``answers`` is empty if none was found within the budget.

    Each answer except the first leaves the largest changes of the earlier ones out. ``by`` is the required change of a
    numeric output, ``evaluations`` the number of evaluated rows, ``samples`` the number of training samples used.
    """

    answers: tuple[Counterfactual, ...]
    decision: str
    goal: str
    outputs: Floats = field(repr=False)
    by: float | None = None
    fixed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evaluations: int = 0
    samples: int = 0
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, index: int) -> Counterfactual:
        return self.answers[index]

    def to_frame(self) -> pandas.DataFrame:
        """One row per change: answer, feature, before, after, distance, percentile, decision."""
        import pandas as pd

        rows = [
            (number, change.feature, change.before, change.after, change.distance, change.percentile, answer.decision)
            for number, answer in enumerate(self.answers)
            for change in answer.changes
        ]
        names = ["answer", "feature", "before", "after", "distance", "percentile", "decision"]
        return pd.DataFrame(rows, columns=names)

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug counterfactuals: predicted {self.decision}; goal: {self.goal}"]
        for item in self.answers:
            distance_text = f"distance {item.distance:.2f} median absolute deviations"
            rarity_text = f"{item.farther:.0%} of the training samples are closer to their nearest training sample"
            lines.append(f"  predicted {item.decision} if {item} ({distance_text}; {rarity_text})")
        lines += [f"  note: {item}" for item in self.notes]
        return "\n".join([*lines, f"  {self.evaluations} rows evaluated, {self.seconds:.2f} s; the model is unchanged"])


class CounterfactualReport:
    """Converts changed rows to a result; ``training_outputs`` are the outputs of the training samples."""

    def __init__(self, queries: QueryBudget, training_outputs: Floats, fixed_units: set[int], features: int) -> None:
        self.queries, self.goal, self.table, self.training_outputs = (
            queries,
            queries.goal,
            queries.table,
            training_outputs,
        )
        self.space, self.fixed_units, self.features = queries.table.feature_space, fixed_units, features

    def build(self, points: Sequence[Floats], seconds: float) -> Counterfactuals:
        """Build the result for changed rows."""
        answers = self.answers(points)
        fixed = tuple(self.space.units[unit].name for unit in sorted(self.fixed_units))
        return Counterfactuals(
            answers, self.decision(self.goal.start_outputs), self.goal.description(), self.goal.start_outputs,
            self.goal.output_change, fixed, self.notes(answers), self.queries.used, len(self.space.rows), seconds,
        )  # fmt: skip

    def answers(self, points: Sequence[Floats]) -> tuple[Counterfactual, ...]:
        """Evaluate each changed row once more, alone."""
        if not points:
            return ()
        rows, changed_rows = _scale_rows(self.space, self.space.rows), _scale_rows(self.space, np.array(points))
        own_rows = np.nonzero((self.space.rows == self.table.original).all(1))[0]  # exclude the sample itself
        neighbor_distances, neighbors = nearest_rows(
            changed_rows, rows, 1, "euclidean", np.full(len(points), own_rows[0] if len(own_rows) else -1)
        )
        farther = np.searchsorted(_reference_distances(rows), neighbor_distances[:, 0]) / min(
            len(rows), _MAX_REFERENCE_SAMPLES
        )
        result = []
        for i, point in enumerate(points):
            outputs, nearest_row = self.table.outputs(point[None])[0], int(neighbors[i, 0])
            distance, nearest_distance = self.space.distance(
                np.array([self.table.original, self.space.rows[nearest_row]]), point
            )
            decision, inputs = self.decision(outputs), self.table.inputs(point[None]).batch.inputs
            neighborhood = nearest_row, float(nearest_distance), float(farther[i])
            result.append(
                Counterfactual(self.changes(point), float(distance), decision, inputs, outputs, *neighborhood)
            )
        return tuple(result)

    def decision(self, outputs: Floats) -> str:
        """Return the predicted class or number as text."""
        if self.goal.output_change is not None:
            return f"{outputs[0]:.4g}"
        return self.goal.class_name(int(self.goal.predicted_classes(outputs[None])[0]))

    def changes(self, point: Floats) -> tuple[FeatureChange, ...]:
        """Return the changes of a row, the largest first."""
        original = self.table.original
        distances = self.space.unit_distances(point[None], original)[0]
        order = [int(unit) for unit in np.argsort(-distances, kind="stable") if distances[unit] > 0]
        return tuple(self.change(self.space.units[unit], point, original, float(distances[unit])) for unit in order)

    def change(self, unit: FeatureUnit, point: Floats, original: Floats, distance: float) -> FeatureChange:
        """Describe the change of one feature, with its percentile and training range if it is numeric."""
        if len(unit.columns) > 1:
            return FeatureChange(
                unit.name, self.active_column(unit, original), self.active_column(unit, point), distance
            )
        j = unit.columns[0]
        percentile = None if unit.kind == "choice" else float((self.space.rows[:, j] <= point[j]).mean())
        training_range = None if unit.kind == "choice" else (unit.low, unit.high)
        return FeatureChange(unit.name, float(original[j]), float(point[j]), distance, percentile, training_range)

    def active_column(self, unit: FeatureUnit, point: Floats) -> str:
        """Return the active column of a group."""
        indices = list(unit.columns)
        midpoint = (self.space.rows[:, indices].min(0) + self.space.rows[:, indices].max(0)) / 2
        names = [self.space.names[j] for j, is_on in zip(indices, point[indices] > midpoint, strict=True) if is_on]
        return " and ".join(name.removeprefix(unit.name).lstrip("_=:. -") or name for name in names) or "none"

    def notes(self, answers: Sequence[Counterfactual]) -> tuple[str, ...]:
        """Return notes on missing answers and unusual values."""
        result = []
        if not answers:
            result.append(
                f"no change was found within {self.queries.used} evaluated rows; fix fewer columns, or increase "
                "features= or budget="
            )
            if not bool((self.goal.margins(self.training_outputs) > 0).any()):
                result.append(f"none of {len(self.training_outputs)} training samples reaches the goal")
        if answers and min(len(answer.changes) for answer in answers) > self.features:
            result.append(f"no change of up to {self.features} columns reaches the goal")
        if units_outside := [unit.name for unit in self.space.units if self.is_outside(unit)]:
            result.append(f"outside the training range: {', '.join(units_outside[:6])}")
        return tuple(result)

    def is_outside(self, unit: FeatureUnit) -> bool:
        """Check for a sample value outside the training range."""
        values = self.table.original[list(unit.columns)]
        tolerance = ROUNDING_SHARE * max(unit.high - unit.low, 1e-12)
        return bool((values < unit.low - tolerance).any() or (values > unit.high + tolerance).any())


def _reference_distances(rows: Singles) -> Singles:
    """Return sorted distances of up to 500 training samples to their nearest neighbor."""
    reference_rows = np.random.default_rng(0).permutation(len(rows))[:_MAX_REFERENCE_SAMPLES]
    return np.sort(nearest_rows(rows[reference_rows], rows, 1, "euclidean", reference_rows)[0][:, 0])


def _scale_rows(space: FeatureSpace, points: Floats) -> Singles:
    """Return rows in median deviations, with a fixed distance between choices."""
    scaled_columns = []
    for unit in space.units:
        values = points[:, list(unit.columns)]
        value_range = (unit.high - unit.low) or 1.0
        scale = (
            value_range / CHOICE_DISTANCE * (2**0.5 if len(unit.columns) > 1 else 1.0)
            if unit.kind == "choice"
            else unit.spread
        )
        scaled_columns.append(values / scale)
    return np.concatenate(scaled_columns, 1).astype(np.float32)
