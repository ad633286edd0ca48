"""Columns of a table that hold the mean of the target over the rows of a category, also smoothed towards a prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isfinite, log
from typing import Literal

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.row_search import find_rows_with_values, to_columns

_MANY_ROWS, _PAIRED_ROWS = 50_000, 16_384
_MIN_PAIRED_SHARE = 0.25  # of the pairs in categories of two rows
_MIN_DISTINCT_VALUES, _MIN_ROWS, _MAX_COLUMNS = 5, 50, 512
_MAX_RELATIVE_ERROR = 1e-4  # of the range of the means
_SAMPLED_ROWS, _SAMPLED_VALUES, _FEW_VALUES = 4_096, 64, 512
_MIN_SHARED_ROWS, _MAX_DENOMINATOR, _MAX_LOG_CHANCE = 12, 6, -11.5  # one in 100,000
_HARMONIC_TERMS, _MAX_SMALLEST_SIZE = 3, 3
_MIN_SHARED_VALUES, _STANDARD_ERRORS, _MAX_SIZE_RATIO = 20, 3, 1.5
_MAX_LACK_OF_FIT = 0.002  # of values rounded to hundredths; 1 without a relation to the noise of the means
_SIZE_TOLERANCE, _MIN_SMOOTHED_SHARE, _MIN_SMOOTHED_VALUES = 0.03, 0.5, 8  # sizes may share a value


EncodingKind = Literal["mean", "smoothed mean", "function"]


@dataclass(frozen=True)
class TargetEncoding:
    """A column that is a function of the targets of the rows with the same value.

    Its ``kind`` is a linear function of their mean, a smoothed mean, or any function of their number and their sum.
    ``has_validation`` tells whether the means include the validation rows. ``pure_share`` is the share of rows whose
    value occurs with a single target: they are the rows of small categories, whose mean is their own target.
    ``noise_share`` is the share of the variance between the means that the variance within the groups explains: other
    rows of the same categories do not share it. ``is_balanced`` tells whether the largest group has up to half as many
    rows more than the smallest, as the levels of a factor in a grid, which may have means on a line without any
    encoding. ``validation_slope`` is that of the targets of validation rows over the means, 1 in training, and its
    standard error; None if the means include these rows, or share fewer than 20 values with them.
    """

    input_index: int
    column: int
    rows: int
    values: int
    has_validation: bool
    pure_share: float
    noise_share: float
    is_balanced: bool
    kind: EncodingKind = "mean"
    validation_slope: tuple[float, float] | None = None

    @property
    def own_share(self) -> float:
        """The average weight of a row in the mean that is its own value."""
        return self.values / self.rows

    @property
    def overstates(self) -> bool:
        """Whether the column predicts the targets of its own rows better than others, as validation rows show.

        If they cannot show it, groups of different sizes do: only a mean of their own targets is that exact.
        """
        if self.validation_slope is None:
            return not self.is_balanced
        slope, error = self.validation_slope
        return slope + _STANDARD_ERRORS * error < 1


@measurement
def target_encodings(tables: dict[str, SplitTable]) -> list[TargetEncoding]:
    """Columns that hold the mean target of a category, computed over the training rows or the rows of both splits."""
    train, val = tables.get("train"), tables.get("val")
    if train is None or not _is_table(train):
        raise NotChecked(f"needs {_MIN_ROWS} training rows with one target each, all of which can be read")
    is_joinable = val is not None and _is_table(val) and len(val.inputs) == len(train.inputs)
    splits = [train, val] if val is not None and is_joinable else [train]
    target = torch.cat([split.targets[0].reshape(len(split)).double() for split in splits])
    encodings: dict[tuple[int, int], TargetEncoding] = {}
    for index, train_part in enumerate(train.inputs):
        parts = [part for split in splits if _is_compatible(part := split.inputs[index], train_part)]
        numbers = _columns_with_repeated_values(parts[0]) if parts else []
        if numbers:
            columns = to_columns([part if len(numbers) == part.shape[1] else part[:, numbers] for part in parts])
            for count in sorted({columns.shape[1], len(train)}, reverse=True):
                for encoding in _find_encodings(columns[:, :count], target[:count], index, count > len(train)):
                    number = numbers[encoding.column]
                    column = columns[encoding.column]
                    slope = None if encoding.has_validation else _validation_slope(column, target, len(train))
                    found = replace(encoding, column=number, validation_slope=slope)
                    encodings[index, number] = found  # exact in training alone counts more than in both
    return list(encodings.values())


def _is_table(table: SplitTable) -> bool:
    """Return whether all rows were read and have one target each."""
    has_target = len(table.targets) == 1 and table.targets[0].numel() == len(table)
    return table.is_complete and len(table) >= _MIN_ROWS and has_target


def _is_compatible(part: Tensor, train_part: Tensor) -> bool:
    """Return whether an input is a real-valued table of the same columns as that of the training split."""
    is_table = part.dim() == 2 and part.is_floating_point()
    return is_table and part.shape[1:] == train_part.shape[1:] and part.shape[1] <= _MAX_COLUMNS


def _columns_with_repeated_values(part: Tensor) -> list[int]:
    """Return the columns of a table that may hold categories; in a large table, by the equal values of random rows.

    If all categories have two rows, n of N random rows contain about n²/2N pairs of equal values, and more if they are
    larger.
    """
    if len(part) < _MANY_ROWS:
        return [*range(part.shape[1])]
    rows = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))[:_PAIRED_ROWS]
    values = part[rows].sort(0).values
    pairs = (values[1:] == values[:-1]).sum(0)
    columns: list[int] = (pairs >= _MIN_PAIRED_SHARE * _PAIRED_ROWS**2 / (2 * len(part))).nonzero().flatten().tolist()
    return columns


def _find_encodings(columns: Tensor, target: Tensor, index: int, has_validation: bool) -> list[TargetEncoding]:
    """Return the encoded columns.

    Categories with equal means share a value, and the mean over all their rows is the same. So the relation is exact.
    """
    encodings = []
    is_binary = bool(((target == 0) | (target == 1)).all())
    for column, column_values in enumerate(columns):
        if not _may_be_encoded(column_values, target, is_binary):
            continue
        groups, values = _factorize(column_values)
        if len(values) < _MIN_DISTINCT_VALUES:
            continue
        counts = groups.bincount()
        means = torch.zeros(len(values), dtype=torch.double).index_add_(0, groups, target) / counts
        within = float((target - means[groups]).square().sum()) / max(len(target) - len(values), 1)
        if kind := _encoding_kind(values.double(), means, counts, within, is_binary):
            is_varied = torch.zeros(len(values), dtype=torch.bool)
            is_varied[groups[(target - means[groups]).abs() > _MAX_RELATIVE_ERROR * target.std()]] = True
            if len(values) >= len(target) / 2 and int(is_varied.sum()) < _MIN_DISTINCT_VALUES:
                continue  # hardly any value stands for several targets: no mean, but perhaps a copy of the target
            pure_share = float((~is_varied[groups]).double().mean())
            noise_share = _noise_share(means, counts, within)
            is_balanced = bool(counts.max() <= _MAX_SIZE_RATIO * counts.min())
            size = len(target), len(values)
            shares = pure_share, noise_share
            encodings.append(TargetEncoding(index, column, *size, has_validation, *shares, is_balanced, kind))
    return encodings


def _noise_share(means: Tensor, counts: Tensor, within: float) -> float:
    """Return the share of the variance between group means that follows from the variance within the groups.

    It is the reciprocal of the F statistic of the analysis of variance.
    """
    overall = (counts * means).sum() / counts.sum()
    between = float((counts * (means - overall).square()).sum()) / (len(means) - 1)
    return min(within / between, 1.0) if between else 0.0


def _validation_slope(column: Tensor, target: Tensor, train_rows: int) -> tuple[float, float] | None:
    """Return the slope of validation targets over the training means of their values, and its standard error.

    The rows of a value are not independent, so that the error counts their sum once. None for fewer than 20 values.
    """
    values, groups = column.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    counts = groups[:train_rows].bincount(minlength=len(values))
    sums = torch.zeros(len(values), dtype=torch.double).index_add_(0, groups[:train_rows], target[:train_rows])
    shared = groups[train_rows:][counts[groups[train_rows:]] > 0]
    if len(shared.unique()) < _MIN_SHARED_VALUES:
        return None
    means = (sums / counts.clamp(min=1))[shared]
    centered = means - means.mean()
    total = float(centered.square().sum())
    if not total > 0:
        return None
    own = target[train_rows:][counts[groups[train_rows:]] > 0]
    slope = float((centered * own).sum()) / total
    products = centered * (own - own.mean() - slope * centered)
    by_group = torch.zeros(len(values), dtype=torch.double).index_add_(0, shared, products)
    return slope, float(by_group.square().sum()) ** 0.5 / total


def _factorize(column: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of the value of each row, and the values.

    Pandas takes a while to import, and is faster on many rows than ``unique``, which sorts.
    """
    if len(column) < _MANY_ROWS:
        values, groups = column.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        return groups, values
    from pandas import factorize

    numbers, distinct = factorize(column.numpy(), use_na_sentinel=False)
    return torch.from_numpy(numbers), torch.from_numpy(distinct)


def _may_be_encoded(column: Tensor, target: Tensor, is_binary: bool) -> bool:
    """Return whether a sample leaves it possible; for many values, from all rows of some, which are fast to find.

    The mean target is a linear function of the value. Means of a binary target may also be smoothed, or another
    function of size and sum: then categories of equal size and sum share a value.
    """
    sampled = column[:: max(len(column) // _SAMPLED_ROWS, 1)].unique()  # type: ignore[no-untyped-call]
    if len(sampled) <= _FEW_VALUES:
        return len(sampled) >= _MIN_DISTINCT_VALUES
    sampled = sampled[:: len(sampled) // _SAMPLED_VALUES].contiguous()
    rows = find_rows_with_values(column, sampled)
    groups = torch.searchsorted(sampled, column[rows])
    counts = groups.bincount(minlength=len(sampled))
    if is_binary and len(rows) >= _MIN_SHARED_ROWS * len(sampled):
        return True
    values = sampled.double()
    means = torch.zeros(len(sampled), dtype=torch.double).index_add_(0, groups, target[rows]) / counts
    within = float((target[rows] - means[groups]).square().sum()) / max(len(rows) - len(sampled), 1)
    return _is_linear(values, means, 10 * _MAX_RELATIVE_ERROR) or _are_smoothed_means(values, means, counts, within)


def _encoding_kind(
    values: Tensor, means: Tensor, counts: Tensor, within: float, is_binary: bool
) -> EncodingKind | None:
    """Return how the values follow from the targets; None if they do not."""
    if _is_linear(values, means) or _are_linear_means([values], means, counts, within):
        return "mean"
    if is_binary and _is_smoothed(values, means, counts):
        return "smoothed mean"
    if not is_binary and _are_smoothed_means(values, means, counts, within):
        return "smoothed mean"
    return "function" if is_binary and _have_simple_shares(means, counts) else None


def _are_linear_means(regressors: list[Tensor], means: Tensor, counts: Tensor, within: float) -> bool:
    """Return whether means differ from a linear function by far less than means of so few targets vary.

    The variance around it, times the rows of a mean, is that within the groups for each column that does not depend on
    their targets: the ratio of both is the F statistic of the test for lack of fit.
    """
    matrix = torch.stack([torch.ones_like(means), *regressors], 1)
    if len(means) < _MIN_SHARED_VALUES or not within > 0 or not bool(matrix.isfinite().all()):
        return False
    roots = counts.double().sqrt()
    fitted = torch.linalg.lstsq(matrix * roots[:, None], (means * roots)[:, None], driver="gelsd").solution
    lack_of_fit = float((counts * (means - (matrix @ fitted)[:, 0]).square()).sum()) / (len(means) - matrix.shape[1])
    return lack_of_fit < _MAX_LACK_OF_FIT * within


def _are_smoothed_means(values: Tensor, means: Tensor, counts: Tensor, within: float) -> bool:
    """Return whether values are smoothed means v = (size mean + w p) / (size + w), up to scale and rounding.

    So the mean is v + w v / size - w p / size, a linear function of three terms. Many groups must have other sizes than
    the most frequent one, since these terms fit a few groups of another size whatever their mean is.
    """
    has_varied_sizes = len(counts) - int(counts.bincount().max()) >= _MIN_SMOOTHED_VALUES
    return has_varied_sizes and _are_linear_means([values, values / counts, 1 / counts], means, counts, within)


def _have_simple_shares(means: Tensor, counts: Tensor) -> bool:
    """Return whether the share of ones of each value is a simple fraction, which chance would not explain.

    Categories of a few rows with the same sum share a value, whatever function of size and sum it is. So the share over
    all their rows is that of one category, such as 1/2 or 2/3 of hundreds of rows.
    """
    is_mixed = (counts >= _MIN_SHARED_ROWS) & (means > 0) & (means < 1)
    sizes, ones = counts[is_mixed].tolist(), (means * counts).round().long()[is_mixed].tolist()
    if not all(map(_is_simple, ones, sizes)):
        return False
    from scipy.stats import binom  # takes long to import

    log_chance = 0.0
    for size, mean in zip(sizes, means[is_mixed].tolist(), strict=True):
        simple = [number for number in range(1, size) if _is_simple(number, size)]
        log_chance += log(min(float(binom.pmf(simple, size, mean).sum()), 1.0))
    return log_chance < _MAX_LOG_CHANCE


def _is_simple(ones: int, count: int) -> bool:
    return Fraction(ones, count).denominator <= _MAX_DENOMINATOR


def _is_smoothed(values: Tensor, means: Tensor, counts: Tensor) -> bool:
    """Return whether values are smoothed means of a binary target by category, (sum + p w) / (size + w), up to scale.

    ``counts`` are the rows of each value. The values of categories with a single target give offset, scale and w, since
    those of three sizes in a row are in a harmonic progression. Then each value gives the size of its categories, which
    must be a whole number that divides the rows, for most rows: categories of different sizes may share a value.
    Source: D. Micci-Barreca, A Preprocessing Scheme for High-Cardinality Categorical Attributes (2001).
    """
    of_zeros, of_ones = (values[means == mean].sort().values for mean in (0.0, 1.0))
    if len(of_zeros) < _HARMONIC_TERMS or len(of_ones) < _HARMONIC_TERMS:
        return False
    of_zeros = of_zeros if of_ones.mean() < of_zeros.mean() else of_zeros.flip(0)  # from the smallest categories on
    of_ones = of_ones.flip(0) if of_ones.mean() < of_zeros.mean() else of_ones
    offset, end = (_harmonic_limit(terms[:_HARMONIC_TERMS]) for terms in (of_zeros, of_ones))
    ratio = float((of_zeros[0] - offset) / (of_zeros[1] - offset))
    if not (isfinite(offset) and isfinite(end) and isfinite(ratio)) or end == offset or ratio <= 1:
        return False
    scaled = (values - offset) / (end - offset)
    smallest = float((of_zeros[0] - offset) / (end - offset))
    for size in range(1, _MAX_SMALLEST_SIZE + 1):
        weight = 1 / (ratio - 1) - size
        prior = smallest * (size + weight) / weight if weight > 0 else -1.0
        if 0 < prior < 1:
            sizes = weight * (prior - scaled) / (scaled - means)
            whole = sizes.round().clamp_min(1)
            is_size = ((sizes - whole).abs() < _SIZE_TOLERANCE * whole) & (counts % whole == 0)
            is_prior = (scaled - means).abs() < _MAX_RELATIVE_ERROR  # a mean equal to the prior fits any size
            share = float(counts[is_size | is_prior].sum() / counts.sum())
            if int(is_size.sum()) >= _MIN_SMOOTHED_VALUES and share > _MIN_SMOOTHED_SHARE:
                return True
    return False


def _harmonic_limit(terms: Tensor) -> float:
    """Return the number b for which 1 / (x - b) of three terms x is an arithmetic progression."""
    first, second, third = terms.tolist()
    divisor = first + third - 2 * second
    return (2 * first * third - second * (first + third)) / divisor if divisor else inf


def _is_linear(values: Tensor, means: Tensor, max_relative_error: float = _MAX_RELATIVE_ERROR) -> bool:
    """Return whether the means are a linear function of the values, up to rounding."""
    scale = float(means.max() - means.min())
    if not scale > 0 or not bool(values.isfinite().all()):
        return False
    centered, deviations = values - values.mean(), means - means.mean()
    slope = float((centered * deviations).sum() / centered.square().sum())
    return float((slope * centered - deviations).abs().max()) < max_relative_error * scale
