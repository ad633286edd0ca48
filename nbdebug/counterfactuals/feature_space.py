"""The feature space of a table: which values a changed sample may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.attribution.input_features import EmbeddingRecorder, is_integer, matching_column
from nbdebug.attribution.problem import Problem
from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import ModelInputs, has_sample_axis
from nbdebug.statistics.intervals import MAD_TO_SIGMA, robust_deviation

Floats = NDArray[np.float64]
_UnitKind = Literal["constant", "choice", "steps", "real"]
_MIN_REPEATS_PER_LEVEL = 4  # if values repeat this often on average, they are levels and no others are allowed
_MAX_GRID_STEPS = 1_000  # a column with more grid steps than this counts as real-valued
CHOICE_DISTANCE = 1.67  # distance between two choices: mean distance of two normal draws, in median absolute deviations
ROUNDING_SHARE = 1e-5  # share of the range that counts as rounding of normalized values
MAX_TRAINING_SAMPLES = 5_000  # training samples that are used
_ALTERNATIVE = "Use the heat map of explain() or its nearest training samples instead"


@dataclass(frozen=True, eq=False)
class FeatureUnit:
    """Columns that change together: a single column, or a one-hot group.

    ``options`` (values × columns) are all allowed values; None for a real-valued column, which may take any value from
    ``low`` to ``high``. ``median_deviation`` is the median absolute deviation, the unit of distances.
    """

    name: str
    columns: tuple[int, ...]
    kind: _UnitKind
    low: float
    high: float
    spread: float
    options: Floats | None = None


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """All units of a table in column order, with the rows they were inferred from."""

    units: tuple[FeatureUnit, ...]
    rows: Floats
    names: tuple[str, ...]

    def distance(self, points: Floats, other: Floats) -> Floats:
        """Return the distances from another row: the sum over units, in median absolute deviations.

        Wachter, Mittelstadt & Russell 2018, arXiv:1711.00399, eq. 4.
        """
        distances: Floats = self.unit_distances(points, other).sum(1)
        return distances

    def unit_distances(self, points: Floats, other: Floats) -> Floats:
        """Return the distance in each unit, rows × units; any other choice counts the same."""
        spreads, tolerances, starts = self.scales
        differences = np.abs(points - other)
        differences = np.where(np.isnan(spreads), CHOICE_DISTANCE * (differences > tolerances), differences / spreads)
        return np.asarray(np.maximum.reduceat(differences, starts, axis=1))

    @cached_property
    def scales(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Spread of each column (NaN for a choice), its rounding tolerance, and the first column of each unit."""
        spreads, tolerances = np.ones(self.rows.shape[1]), np.zeros(self.rows.shape[1])
        for unit in self.units:
            indices = list(unit.columns)
            spreads[indices] = np.nan if unit.kind == "choice" else unit.spread
            tolerances[indices] = ROUNDING_SHARE * (unit.high - unit.low)
        return spreads, tolerances, np.array([unit.columns[0] for unit in self.units])

    def changed_units(self, point: Floats, other: Floats) -> list[int]:
        """Return the units in which two rows differ."""
        return [int(unit) for unit in np.nonzero(self.unit_distances(point[None], other)[0])[0]]


def build_feature_space(rows: Floats, names: Sequence[str], choice_columns: Sequence[int] = ()) -> FeatureSpace:
    """Infer the units of a table (rows × columns); ``choice_columns`` columns take observed values only."""
    groups = _one_hot_groups(rows)
    grouped = {column for group in groups for column in group}
    units = [_choice_unit(rows, group, names) for group in groups]
    units += [_column_unit(rows, j, names[j], j in choice_columns) for j in range(rows.shape[1]) if j not in grouped]
    return FeatureSpace(tuple(sorted(units, key=lambda unit: unit.columns)), rows, tuple(names))


def _column_unit(rows: Floats, j: int, name: str, is_choice: bool = False) -> FeatureUnit:
    values = rows[:, j]
    observed = np.unique(values)
    low, high = float(observed[0]), float(observed[-1])
    if len(observed) == 1:
        return FeatureUnit(name, (j,), "constant", low, high, 1.0, observed[:, None])
    if is_choice or len(observed) == 2:
        return FeatureUnit(name, (j,), "choice", low, high, _median_deviation(values), observed[:, None])
    grid = _step_values(values, observed)
    kind: _UnitKind = "real" if grid is None else "steps"
    return FeatureUnit(name, (j,), kind, low, high, _median_deviation(values), None if grid is None else grid[:, None])


def _median_deviation(values: Floats) -> float:
    """Return the median absolute deviation; estimated from the mean one if most values are equal."""
    return robust_deviation(values) / MAD_TO_SIGMA or 1.0


def _step_values(values: Floats, observed: Floats) -> Floats | None:
    """Return the allowed values of a stepped column: integers, a grid or a few levels; None for a real column."""
    value_range = float(observed[-1] - observed[0])
    if (observed == np.rint(observed)).all():
        return np.arange(observed[0], observed[-1] + 1) if value_range <= _MAX_GRID_STEPS else observed
    gaps = np.diff(observed)
    gaps = gaps[gaps > ROUNDING_SHARE * value_range]  # normalized values differ in their last digits
    step_count = round(value_range / float(gaps.min()))
    if step_count <= _MAX_GRID_STEPS and len(values) >= 2 * len(observed):
        steps = gaps * (step_count / value_range)
        if np.abs(steps - np.rint(steps)).max() < 0.02 and step_count < 4 * len(observed):
            return np.linspace(observed[0], observed[-1], step_count + 1)
    return observed if len(values) >= _MIN_REPEATS_PER_LEVEL * len(observed) else None


def _one_hot_groups(rows: Floats) -> list[tuple[int, ...]]:
    """Return groups of adjacent binary columns of which exactly one is on in every row."""
    low, high = rows.min(0), rows.max(0)
    on = rows > (low + high) / 2
    binary = ((rows == low) | (rows == high)).all(0) & ((low < high) | (low == 0))
    groups, start = [], 0
    while start < rows.shape[1]:
        end = _group_end(on, binary, start)
        if end:
            groups.append(tuple(range(start, end)))
        start = end or start + 1
    return groups


def _group_end(on: NDArray[np.bool_], binary: NDArray[np.bool_], start: int) -> int:
    """Return the end of the group that starts here, 0 for none; a column that is never on belongs to its group."""
    on_count = np.zeros(len(on), np.int64)
    for end in range(start, on.shape[1]):
        if not binary[end] or (end == start and not on[:, end].any()):
            return 0
        on_count += on[:, end]
        if (on_count > 1).any():
            return 0
        if end > start and (on_count == 1).all():
            return end + 1
    return 0


def _choice_unit(rows: Floats, group: tuple[int, ...], names: Sequence[str]) -> FeatureUnit:
    indices = list(group)
    observed = np.unique(rows[:, indices], axis=0)
    name = _common_prefix([names[j] for j in group])
    return FeatureUnit(
        name, group, "choice", float(rows[:, indices].min()), float(rows[:, indices].max()), 1.0, observed
    )


def _common_prefix(names: Sequence[str]) -> str:
    """Return the common prefix of the names of a group, else all names."""
    first, last = min(names), max(names)
    prefix_length = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    prefix = first[:prefix_length].rstrip("_=:. -")
    return prefix if len(prefix) > 1 else "/".join(names)


@dataclass(frozen=True, eq=False)
class TabularProblem:
    """A problem with tabular inputs: ``start`` is the sample, ``feature_space`` its feature space."""

    problem: Problem
    original: Floats
    feature_space: FeatureSpace

    def outputs(self, points: Floats) -> Floats:
        """Return the model outputs for rows of columns, rows × outputs."""
        tensor: Tensor = self.problem.predict_all(self.inputs(points))
        return tensor.to("cpu", torch.float64).numpy()

    def inputs(self, points: Floats) -> ModelInputs:
        """Convert rows of columns to inputs of the model."""
        replacements, start = {}, 0
        for leaf_index, leaf in enumerate(self.problem.inputs.leaves):
            if has_sample_axis(leaf):
                width = leaf[0].numel()
                values = torch.from_numpy(np.ascontiguousarray(points[:, start : start + width]))
                replacements[leaf_index] = values.reshape(len(points), *leaf.shape[1:]).to(leaf.dtype).to(leaf.device)
                start += width
        return self.problem.inputs.with_leaves(replacements)


def build_tabular_problem(problem: Problem, feature_names: Sequence[str] | None = None) -> TabularProblem:
    """Build the table; raise SetupError for images, tokens, several samples and missing training data."""
    if problem.size != 1:
        raise SetupError(f"inputs has {problem.size} samples; expected one. Pass x[:1].")
    if problem.background is None or problem.background.size < 2:
        raise SetupError(
            "background is None or a single sample; expected training samples, to infer the allowed values. "
            "Pass background=x_train."
        )
    leaves = [(name, leaf) for name, leaf in problem.inputs.named_tensors if leaf.dim()]
    for name, leaf in leaves:
        check_tabular(name, leaf)
    categorical = embedded_columns(problem)
    background_leaves = [leaf for _, leaf in problem.background.named_tensors if leaf.dim()]
    rows = np.concatenate([_flatten_leaf(leaf) for leaf in background_leaves], 1)
    rows = rows[np.isfinite(rows).all(1)]
    if len(rows) < 2:
        raise SetupError("background has fewer than two finite samples; expected more. Fill or drop the others.")
    start = np.concatenate([_flatten_leaf(leaf) for _, leaf in leaves], 1)[0]
    return TabularProblem(
        problem, start, build_feature_space(rows, _column_names(problem, leaves, feature_names), categorical)
    )


def _flatten_leaf(leaf: Tensor) -> Floats:
    """Flatten a leaf to rows of columns."""
    rows: Floats = leaf.detach().reshape(len(leaf), -1).to("cpu", torch.float64).numpy()
    return rows


def check_tabular(name: str, leaf: Tensor) -> None:
    """Raise SetupError for images, series and text."""
    if leaf.dim() > 2 and leaf[0].numel() > max(leaf.shape[1:]):
        shape = " × ".join(map(str, leaf.shape[1:]))
        raise SetupError(f"{name} has {shape} values per sample; expected columns of a table. {_ALTERNATIVE}.")


def embedded_columns(problem: Problem) -> list[int]:
    """Return the columns that embeddings take, which are categorical; raise SetupError for a sequence of tokens."""
    columns, start = [], 0
    recorder = EmbeddingRecorder(problem.model) if isinstance(problem.model, nn.Module) else None
    if (
        recorder is not None
        and recorder.embeddings
        and any(is_integer(tensor) for _, tensor in problem.inputs.named_tensors)
    ):
        with torch.no_grad(), recorder.recording():
            problem.call(problem.inputs.batch)
    for name, leaf in problem.inputs.named_tensors:
        if not leaf.dim():
            continue
        matches = (
            {matching_column(ids, leaf) for _, _, ids, _ in recorder.calls} if recorder and is_integer(leaf) else set()
        )
        if -1 in matches and leaf[0].numel() > 1:
            raise SetupError(
                f"{name} is a sequence of {leaf[0].numel()} tokens; expected columns of a table. {_ALTERNATIVE}."
            )
        columns += [start + max(column, 0) for column in matches if column is not None]
        start += leaf[0].numel()
    return columns


def _column_names(problem: Problem, leaves: list[tuple[str, Tensor]], user_names: Sequence[str] | None) -> list[str]:
    """Return a name per column; raise SetupError for a wrong number of names."""
    names = list(user_names) if user_names is not None else list(problem.names[1] or [])
    width = sum(leaf[0].numel() for _, leaf in leaves)
    if len(names) == width:
        return [str(column) for column in names]
    if user_names is not None:
        raise SetupError(f"feature_names has {len(names)} names; expected {width}, one per column. Pass all names.")
    result = []
    for name, leaf in leaves:
        leaf_names = names if len(names) == leaf[0].numel() else [str(j) for j in range(leaf[0].numel())]
        prefix = "" if len(leaves) == 1 or leaf_names is names else f"{name} "
        result += [
            f"{prefix}{column}" if not column.isdigit() or prefix else f"feature {column}" for column in leaf_names
        ]
    return result
