"""Units of the features in both splits, and regularization."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.autograd.call_recorders import ModeDependentCall
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.feature_values import feature_rows, is_image_batch, sample_positions
from nbdebug.measurements.padding import count_real_steps
from nbdebug.measurements.partial_streams import check_no_ordered_stream
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.measurements.split_permutation import ChanceDifferences, differences_by_chance, get_classes
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tensors.row_search import is_finite

_MIN_SAMPLES, _MAX_SAMPLES = 30, 1000
_MIN_FACTOR, _MIN_SHIFT = 1.5, 0.5  # of differences that are compared with those of random divisions
_SHORT_SHARE = 0.05  # of the sequences, which may end before the steps that are compared
_CLOSE_VALUES = 0.1  # of the distance between the most frequent values of the splits
_MIN_FREQUENT_SHARE, _MAX_RARE_SHARE = 0.2, 0.001  # of all values, for a value that only one split has
_MIN_ROWS_OF_COLUMNS, _MIN_COLUMN_VALUES, _MAX_REORDERED = 60, 4, 64
# Factors of the standard error at significance 1e-5 and 0.01, from the asymptotic distribution of the statistic.
_DIFFERS, _AGREES = 2.47, 1.63
_MIN_UNIT_FACTOR = 10.0


_MAX_STANDARD_ERROR, _MIN_STANDARD_SHARE = 0.25, 0.9  # of the mean and deviation of a part of a standardized split


@dataclass(frozen=True)
class UnitComparison:
    """Comparison of one part of the data in both splits, by feature.

    A feature is a column of a table, a channel of an image batch, or all values otherwise. ``spread_ratios`` is the
    spread in validation divided by that in training, for features that vary in both; ``step_ratio`` is the same ratio
    for the steps between neighboring values of a sample (None if a sample is one number). ``mean_shifts`` is the
    distance of the means in units of the training spread. ``are_channels_reversed`` is True if the channels agree only
    in reverse order. ``column_order`` names, for each column of validation, that of training with the same values, if
    columns agree only in another order; else it is empty. ``frequent_values`` are the most frequent values of training
    and validation, such as the background of images, if the other split does not have them; else None.
    ``column_factors`` are the columns of a table that have another unit than in training, each with the factor of
    validation to training, after which both splits agree. ``standardized_split`` is the only split whose features have
    mean 0 and standard deviation 1; "" if neither or both do. ``chance`` holds the differences between random divisions
    of the samples, if the differences are large.
    """

    name: str
    spread_ratios: Tensor
    step_ratio: float | None
    mean_shifts: Tensor
    are_channels_reversed: bool
    means: tuple[list[float], list[float]]
    spreads: tuple[list[float], list[float]]
    frequent_values: tuple[float, float] | None = None
    column_order: tuple[int, ...] = ()
    column_factors: tuple[tuple[int, float], ...] = ()
    standardized_split: str = ""
    chance: ChanceDifferences = field(default_factory=ChanceDifferences)

    @property
    def scale_factor(self) -> float:
        """The factor by which validation values spread wider, over features and within samples; 1 if inconsistent."""
        if not len(self.spread_ratios):
            return 1.0
        low, high = torch.quantile(self.spread_ratios, torch.tensor([0.1, 0.9])).tolist()
        both = [float(self.spread_ratios.median())] + ([self.step_ratio] if self.step_ratio is not None else [])
        if low > 1.0 and min(both) > 1:
            return min(both)
        return max(both) if high < 1.0 and max(both) < 1 else 1.0

    @property
    def ratio_range(self) -> tuple[float, float]:
        """The smallest and the largest spread ratio of the features; 1 if no feature varies."""
        return (float(self.spread_ratios.min()), float(self.spread_ratios.max())) if len(self.spread_ratios) else (1, 1)

    @property
    def shift_range(self) -> tuple[float, float]:
        """The smallest and the largest distance of the means of a feature; 0 if no feature varies."""
        return (float(self.mean_shifts.min()), float(self.mean_shifts.max())) if len(self.mean_shifts) else (0, 0)

    @property
    def mean_shift(self) -> float:
        """The median distance of the means over the features."""
        return float(self.mean_shifts.median()) if len(self.mean_shifts) else 0.0

    @property
    def outer_ratios(self) -> tuple[float, float]:
        """The spread ratios of the features at the outer tenths; 1 if no feature varies."""
        if not len(self.spread_ratios):
            return 1.0, 1.0
        low, high = torch.quantile(self.spread_ratios.log(), torch.tensor([0.1, 0.9])).exp().tolist()
        return low, high


@measurement
def unit_comparisons(setup: Setup, tables: dict[str, SplitTable]) -> list[UnitComparison]:
    """Location and spread of inputs and real-valued targets in both splits."""
    if len(tables) < 2:
        raise NotChecked("there is no validation loader")
    check_no_ordered_stream(setup, tables)
    train, val = tables["train"], tables["val"]
    if min(len(train), len(val)) < _MIN_SAMPLES:
        raise NotChecked(f"needs {_MIN_SAMPLES} readable samples of each split")
    inputs = zip(train.inputs, val.inputs, strict=False)
    pairs = [(f"input {i}", *_cut_padding(*pair)) for i, pair in enumerate(inputs)]
    if train.labels is None and len(train.targets) == len(val.targets) == 1:
        pairs.append(("target", train.targets[0], val.targets[0]))
    classes = get_classes(train, val)
    return [_with_chance(_compare_units(*pair), *pair[1:], classes) for pair in pairs if _are_comparable(*pair[1:])]


def _cut_padding(train: Tensor, val: Tensor) -> tuple[Tensor, Tensor]:
    """Cut sequences that are padded to another length in each split to the steps that nearly all samples have."""
    if train.dim() != 3 or val.dim() != 3 or train.shape[1:] == val.shape[1:]:
        return train, val
    axis = 1 if train.shape[1] != val.shape[1] else 2
    lengths = torch.cat([count_real_steps(part, axis) for part in (train, val)])
    steps = max(int(lengths.double().quantile(_SHORT_SHARE)), 1)
    return train.narrow(axis, 0, min(steps, train.shape[axis])), val.narrow(axis, 0, min(steps, val.shape[axis]))


def _with_chance(units: UnitComparison, train: Tensor, val: Tensor, classes: tuple[Tensor, Tensor]) -> UnitComparison:
    """Add the differences between random divisions if a rule may ask whether those of the splits exceed them."""
    factor, (low, high) = units.scale_factor, units.outer_ratios
    is_large = max(factor, 1 / factor, min(1 / low, high)) > _MIN_FACTOR or units.mean_shift > _MIN_SHIFT
    return replace(units, chance=differences_by_chance(train, val, classes)) if is_large else units


def _are_comparable(train: Tensor, val: Tensor) -> bool:
    """Return whether both tensors are finite and numeric, with the same features."""
    are_numeric = {
        train.is_floating_point() or train.dtype == torch.uint8,
        val.is_floating_point() or val.dtype == torch.uint8,
    }
    have_same_features = train.dim() == val.dim() and (train.dim() != 2 or train.shape[1] == val.shape[1])
    return are_numeric == {True} and have_same_features and is_finite(train) and is_finite(val)


def _compare_units(name: str, train: Tensor, val: Tensor) -> UnitComparison:
    train_rows, val_rows = (_sample_rows(values) for values in (train, val))
    train_features, val_features = feature_rows(train_rows), feature_rows(val_rows)
    spread = [(values - values.mean(1, keepdim=True)).abs().mean(1) for values in (train_features, val_features)]
    is_varying = (spread[0] > 0) & (spread[1] > 0)
    means = [values.mean(1) for values in (train_features, val_features)]
    return UnitComparison(
        name,
        (spread[1] / spread[0])[is_varying],
        _compute_step_ratio(train_rows, val_rows),
        ((means[1] - means[0]).abs() / spread[0])[is_varying],
        _are_channels_reversed(train_rows, val_rows),
        (means[0].tolist()[:20], means[1].tolist()[:20]),
        (spread[0].tolist()[:20], spread[1].tolist()[:20]),
        _exchanged_frequent_values(train_rows, val_rows),
        _changed_column_order(train_rows, val_rows),
        _changed_column_units(train_rows, val_rows),
        _find_standardized_split(train_features, val_features),
    )


def _find_standardized_split(train: Tensor, val: Tensor) -> str:
    """Return the only split of which nine tenths of the varying features have mean 0 and standard deviation 1."""
    standardized = []
    for split, features in (("training", train), ("validation", val)):
        means, deviations = features.mean(1), features.std(1)
        is_standard = (means.abs() < _MAX_STANDARD_ERROR) & ((deviations - 1).abs() < _MAX_STANDARD_ERROR)
        is_varying = deviations > 0
        if bool(is_varying.any()) and float(is_standard[is_varying].float().mean()) >= _MIN_STANDARD_SHARE:
            standardized.append(split)
    return standardized[0] if len(standardized) == 1 else ""


def _exchanged_frequent_values(train: Tensor, val: Tensor) -> tuple[float, float] | None:
    """Return the most frequent value of each split if the other split does not have it; else None.

    Neither counts if both splits have about the same two values, as weights that are normalized in each split.
    """
    values = train.flatten(), val.flatten()
    frequent = [float(split.mode().values) for split in values]
    tolerance = _CLOSE_VALUES * abs(frequent[0] - frequent[1])
    own_shares = [_share_close_to(*pair, 0.0) for pair in zip(values, frequent, strict=True)]
    other_shares = [_share_close_to(*pair, 0.0) for pair in zip(values[::-1], frequent, strict=True)]
    close_shares = [_share_close_to(*pair, tolerance) for pair in zip(values[::-1], frequent, strict=True)]
    if min(own_shares) < _MIN_FREQUENT_SHARE or max(other_shares) > _MAX_RARE_SHARE:
        return None
    have_both = all(close > own / 2 for close, own in zip(close_shares, own_shares, strict=True))
    return None if have_both else (frequent[0], frequent[1])


def _share_close_to(values: Tensor, value: float, tolerance: float) -> float:
    return float(((values - value).abs() <= tolerance).double().mean())


def _sample_rows(part: Tensor) -> Tensor:
    """Return evenly spaced rows as floating-point values."""
    return part[sample_positions(len(part), _MAX_SAMPLES)].float()


def _compute_step_ratio(train: Tensor, val: Tensor) -> float | None:
    """Return the ratio of neighboring differences in validation to training; None if there are none.

    Computed along the axis with the smallest differences in training: the time axis of a series, whose level may drift.
    """
    steps = {axis: _compute_median_step(train, axis) for axis in range(1, train.dim()) if train.shape[axis] > 1}
    axis = min(steps, key=lambda candidate: steps[candidate], default=None)
    return (
        _compute_median_step(val, axis) / steps[axis]
        if axis is not None and steps[axis] and val.shape[axis] > 1
        else None
    )


def _compute_median_step(part: Tensor, axis: int) -> float:
    """Return the median over samples of the mean absolute difference between neighbors along an axis."""
    return float(part.diff(dim=axis).abs().flatten(1).mean(1).median())


def _are_channels_reversed(train: Tensor, val: Tensor) -> bool:
    """Return whether the first three channels agree only in reverse order, beyond sampling noise."""
    if not is_image_batch(train) or train.shape[1] < 3 or val.shape[1] != train.shape[1]:
        return False
    train_means, val_means = (first[:, :3].flatten(2).mean(2) for first in (train, val))
    noise = train_means.var(0) / len(train_means) + val_means.var(0) / len(val_means)

    def compute_distance(first: Tensor, second: Tensor, error: Tensor) -> float:
        return float(((first - second).square() / error.clamp_min(1e-12)).mean())

    reversed_noise = train_means.var(0) / len(train_means) + val_means.var(0).flip(0) / len(val_means)
    return (
        compute_distance(train_means.mean(0), val_means.mean(0), noise) > 25
        and compute_distance(train_means.mean(0), val_means.mean(0).flip(0), reversed_noise) < 4
    )


def _changed_column_order(train: Tensor, val: Tensor) -> tuple[int, ...]:
    """Return the column of training that each column of validation agrees with; empty if the order is the same.

    All columns that differ between the splits must agree in the other order, by the two-sample test of Kolmogorov and
    Smirnov. Columns of a few values do not count, since a drift may exchange the shares of two.
    """
    if train.dim() != 2 or len(train) < _MIN_ROWS_OF_COLUMNS or len(val) < _MIN_ROWS_OF_COLUMNS:
        return ()
    columns = [np.sort(rows.numpy().T, axis=1) for rows in (train, val)]
    error = ((len(train) + len(val)) / (len(train) * len(val))) ** 0.5
    differing = [i for i in range(len(columns[0])) if _ks_distance(columns[0][i], columns[1][i]) > _DIFFERS * error]
    has_few_values = any(len(np.unique(side[i])) < _MIN_COLUMN_VALUES for side in columns for i in differing)
    if not 2 <= len(differing) <= _MAX_REORDERED or has_few_values:
        return ()
    from scipy.optimize import linear_sum_assignment  # takes long to import

    distances = np.array([[_ks_distance(columns[0][i], columns[1][j]) for i in differing] for j in differing])
    _, assigned = linear_sum_assignment(distances)
    if max(distances[j, i] for j, i in enumerate(assigned)) > _AGREES * error:
        return ()
    order = list(range(len(columns[0])))
    for j, i in zip(differing, assigned, strict=True):
        order[j] = differing[i]
    return tuple(order)


def _changed_column_units(train: Tensor, val: Tensor) -> tuple[tuple[int, float], ...]:
    """Return the columns that agree only after a multiplication by at least 10, or a division, with their factors.

    The factor is the ratio of the interquartile ranges, which outliers do not change. The two-sample test of
    Kolmogorov and Smirnov shows that the columns differ, and that they agree after the change.
    """
    if train.dim() != 2 or len(train) < _MIN_ROWS_OF_COLUMNS or len(val) < _MIN_ROWS_OF_COLUMNS:
        return ()
    error = ((len(train) + len(val)) / (len(train) * len(val))) ** 0.5
    quartiles = torch.tensor([0.25, 0.75])
    ranges = [torch.quantile(rows, quartiles, dim=0).diff(dim=0)[0] for rows in (train, val)]
    factors = ranges[1] / ranges[0]
    is_other = (ranges[0] > 0) & (ranges[1] > 0) & (torch.maximum(factors, 1 / factors) >= _MIN_UNIT_FACTOR)
    changed = []
    for column in is_other.nonzero().flatten().tolist():
        factor = float(factors[column])
        first, second = (np.sort(rows[:, column].numpy()) for rows in (train, val))
        rescaled = first * np.float32(factor)
        if _ks_distance(first, second) > _DIFFERS * error and _ks_distance(rescaled, second) < _AGREES * error:
            changed.append((column, factor))
    return tuple(changed)


def _ks_distance(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Return the largest distance between the distribution functions of two sorted samples."""
    values = np.concatenate([first, second])
    shares = (np.searchsorted(side, values, side="right") / len(side) for side in (first, second))
    return float(np.abs(np.subtract(*shares)).max())


@dataclass(frozen=True)
class Regularizers:
    """Names of the regularizers; the targets in the training set (0 if unknown); the values per input."""

    kinds: tuple[str, ...]
    target_count: int
    input_size: int


@slow_measurement
def regularizers(setup: Setup, batches: list[Batch], train_calls: list[ModeDependentCall]) -> Regularizers:
    """Weight decay, dropout and noise of the model in train mode, and random augmentation of the samples."""
    groups = [group for item in setup.optimizers for group in item.param_groups]
    noise = [item.call for item in train_calls if item.is_active and item.kind != "batch statistics"]
    is_present = {
        "weight decay": any(group.get("weight_decay", 0.0) for group in groups),
        "noise in the model": bool(noise),
        "random augmentation": _has_random_samples(setup.train_loader),
    }
    batch = batches[0]
    per_sample = sum(t.numel() for t in tree_tensors(batch.targets)) / max(batch.size, 1)
    input_size = sum(t.numel() for t in tree_tensors((batch.args, batch.kwargs))) // max(batch.size, 1)
    samples = _count_samples(setup.train_loader, batch.size)
    return Regularizers(
        tuple(kind for kind, present in is_present.items() if present), int(samples * per_sample), input_size
    )


def _count_samples(loader: Any, batch_size: int) -> int:
    """Return the number of samples of a loader in an epoch; 0 if unknown."""
    dataset = getattr(loader, "dataset", None)
    if isinstance(dataset, Sized):
        return len(dataset)
    return len(loader) * batch_size if isinstance(loader, Sized) else 0


def _has_random_samples(loader: Any) -> bool:
    """Return whether reading the same sample twice gives different values."""
    if not is_map_style(loader) or not isinstance(loader.dataset, Sized) or not len(loader.dataset):
        return False
    try:
        data: Any = loader.dataset
        first, second = (tree_tensors(data[0]) for _ in range(2))
    except Exception:
        return False
    return len(first) != len(second) or not all(map(_are_equal, first, second))


def _are_equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.allclose(
        first, second, rtol=0.0, atol=0.0, equal_nan=first.is_floating_point()
    )
