"""Series and columns that average values over steps that include later ones, such as the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.row_search import is_finite

_MIN_ROWS, _MAX_ROWS, _MIN_STEPS, _MAX_SERIES = 50, 500, 4, 16
_MAX_REACH = 5  # steps before and after each step, in an average of up to eleven
_EXACT, _INEXACT = 1e-4, 1e-2  # residual, in standard deviations; float32 series and their rounding
_MIN_WEIGHT, _TOLERANCE = 1e-3, 1e-2


@dataclass(frozen=True)
class SmoothedSeries:
    """A ``series`` that averages another, the ``source``, over steps up to ``later`` ones after each of its own.

    With its last steps, a linear function of the input reproduces the target up to ``residual`` of its standard
    deviation; with the source alone, up to ``residual_of_source``.
    """

    input_index: int
    series: int
    source: int
    later: int
    residual: float
    residual_of_source: float
    rows: int


@measurement
def smoothed_series(tables: dict[str, SplitTable]) -> list[SmoothedSeries]:
    """Series of the inputs that average later steps of another series, and so contain a target that continues it."""
    table = tables.get("train")
    if table is None or len(table) < _MIN_ROWS or len(table.targets) != 1 or table.targets[0][0].numel() != 1:
        raise NotChecked(f"needs {_MIN_ROWS} training rows with one target each")
    target = table.targets[0].reshape(len(table)).double()[:_MAX_ROWS]
    if not table.targets[0].is_floating_point() or float(target.std()) == 0:
        raise NotChecked("the target is no real number, or constant")
    smoothed: list[SmoothedSeries] = []
    for index, part in enumerate(table.inputs):
        is_series = part.is_floating_point() and part.dim() == 3 and part.shape[1] >= _MIN_STEPS
        if is_series and 1 < part.shape[2] <= _MAX_SERIES and is_finite(part):
            smoothed += _find_smoothed(part[:_MAX_ROWS].double(), target, index)
    return smoothed


@dataclass(frozen=True)
class SmoothedTarget:
    """A ``column`` that averages the targets of its own row, of ``earlier`` rows before it and ``later`` ones after it.

    It does so exactly.
    """

    input_index: int
    column: int
    earlier: int
    later: int
    rows: int


@measurement
def smoothed_targets(tables: dict[str, SplitTable]) -> list[SmoothedTarget]:
    """Columns of a table in temporal order that are moving averages of the target, which include that of their row."""
    table = tables.get("train")
    if table is None or len(table) < _MIN_ROWS or len(table.targets) != 1 or table.targets[0][0].numel() != 1:
        raise NotChecked(f"needs {_MIN_ROWS} training rows with one target each")
    if not table.targets[0].is_floating_point() or float(table.targets[0].double().std()) == 0:
        raise NotChecked("the target is no real number, or constant")
    order = torch.tensor(table.indices).argsort()[:_MAX_ROWS]
    target = table.targets[0].reshape(len(table))[order].double()
    smoothed: list[SmoothedTarget] = []
    for index, part in enumerate(table.inputs):
        if part.is_floating_point() and part.dim() == 2 and is_finite(part):
            for column in range(min(part.shape[1], _MAX_SERIES)):
                window = _find_window(target, part[order, column].double())
                smoothed += [SmoothedTarget(index, column, *window, len(target))] if window else []
    return smoothed


def _find_window(target: Tensor, column: Tensor) -> tuple[int, int] | None:
    """Return how many earlier and later targets a column averages with that of its row; None if it is no such average.

    A window of one row more gives the same values, so the smallest one counts.
    """
    for reach in range(1, 2 * _MAX_REACH + 1):
        windows = target.unfold(0, reach + 1, 1)
        for later in range(min(reach, _MAX_REACH) + 1):
            values = column[reach - later : len(column) - later]
            if len(values) < 4 * windows.shape[1] or float(values.std()) == 0:
                return None
            weights, residual = _fit(windows, values)
            if residual < _EXACT:
                sums_to_one = abs(float(weights.sum()) - 1) < _TOLERANCE
                is_average = bool((weights > _MIN_WEIGHT).all()) and (sums_to_one or _are_equal(weights))
                return (reach - later, later) if is_average else None
    return None


def _find_smoothed(part: Tensor, target: Tensor, index: int) -> Iterator[SmoothedSeries]:
    for series, source in permutations(range(part.shape[2]), 2):
        later = _get_later_steps(part[:, :, source], part[:, :, series])
        if later:
            columns = part[:, -min(2 * _MAX_REACH + 1, part.shape[1]) :, source]
            residual = _fit(torch.cat([columns, part[:, -later:, series]], 1), target)[1]
            residual_of_source = _fit(columns, target)[1]
            if residual < _EXACT and residual_of_source > _INEXACT:
                yield SmoothedSeries(index, series, source, later, residual, residual_of_source, len(part))


def _get_later_steps(source: Tensor, series: Tensor) -> int:
    """Return how many later steps of a source each value of a series averages; 0 if it is no such average."""
    for reach in range(1, min(_MAX_REACH, (source.shape[1] - 1) // 2) + 1):
        windows = source.unfold(1, 2 * reach + 1, 1).flatten(0, 1)
        values = series[:, reach : source.shape[1] - reach].flatten()
        if len(values) < 4 * windows.shape[1] or float(values.std()) == 0:
            return 0
        weights, residual = _fit(windows, values)
        if residual < _EXACT:
            used = weights.abs() > _MIN_WEIGHT
            is_average = bool((weights[used] > 0).all()) and (
                abs(float(weights.sum()) - 1) < _TOLERANCE or _are_equal(weights[used])
            )
            later = [step for step in range(1, reach + 1) if bool(used[reach + step])]
            return max(later, default=0) if is_average else 0
    return 0


def _are_equal(weights: Tensor) -> bool:
    """Return whether three or more weights are equal, as those of a moving average of standardized series."""
    return len(weights) > 2 and float(weights.max() - weights.min()) < _TOLERANCE * float(weights.max())


def _fit(columns: Tensor, values: Tensor) -> tuple[Tensor, float]:
    """Return the weights of a linear function, and its root mean squared error in standard deviations."""
    matrix = torch.cat([columns, torch.ones(len(columns), 1, dtype=columns.dtype)], 1)
    weights = torch.linalg.lstsq(matrix, values.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    error = (matrix @ weights - values).square().mean().sqrt() / values.std()
    return weights[:-1], float(error)
