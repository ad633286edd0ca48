"""Statistics of the leaves of samples, accumulated chunk by chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.measurements.feature_values import feature_rows, is_image_batch
from nbdebug.measurements.padding import find_trailing_frames, find_trailing_padding
from nbdebug.sample_display.arrays import as_array
from nbdebug.tools.data.comparison_features import find_blank_samples
from nbdebug.tools.data.reading import LeafValues
from nbdebug.tools.data.text_statistics import TextCounter, TextStatistics

_Floats = NDArray[np.float64]
_MAX_DISTINCT, _MAX_LENGTHS, _MAX_FEATURES = 1_000, 100_000, 4_096
_MIN_TOKEN_COLUMNS, _MIN_TOKENS, _MIN_MEDIAN_SHARE = 3, 8, 0.5
_ROWS_PER_BLOCK = 2_048


@dataclass(frozen=True)
class FeatureStatistics:
    """Statistics of one feature: a column of a table, a channel of images, or all values of a leaf.

    ``count`` is the number of values, of which ``missing`` are NaN and ``infinite`` are infinite; the others refer to
    the finite values and are NaN if there are none. ``zeros`` is the share of zeros.
    """

    name: str
    count: int
    missing: int
    infinite: int
    zeros: float
    mean: float
    std: float
    low: float
    high: float

    @property
    def is_constant(self) -> bool:
        """True if all values are finite and equal, and there are at least two."""
        return self.count > 1 and not self.missing and not self.infinite and self.low == self.high

    @property
    def missing_share(self) -> float:
        """The share of NaN."""
        return self.missing / max(self.count, 1)


@dataclass(frozen=True)
class LeafProfile:
    """One leaf of the samples of a split.

    ``role`` is "input", "target" or "other" (not passed to model or loss). ``shapes`` are the most common shapes of a
    sample with their counts. ``lengths`` are the numbers of steps before the padding, one for each sample, if there is
    padding or if the lengths differ; ``padding`` is the share of padded steps, 0 without padding. ``values`` are the
    most common values of a leaf with few of them, and ``distinct`` is their number, None for many. ``texts`` describes
    strings. ``blank`` is the number of images or series of which each channel is constant.
    """

    role: str
    name: str
    kind: str
    samples: int
    shapes: tuple[tuple[tuple[int, ...], int], ...]
    features: tuple[FeatureStatistics, ...]
    lengths: tuple[int, ...] = ()
    padding: float = 0.0
    values: tuple[tuple[str, int], ...] = ()
    distinct: int | None = None
    missing: int = 0
    texts: TextStatistics | None = None
    blank: int = 0

    @property
    def title(self) -> str:
        """The role and the name."""
        return f"{self.role} {self.name}".strip()

    @property
    def dtypes(self) -> list[str]:
        """The types of its tensors, without those of numbers that were not collated."""
        kinds = self.kind.split(" or ")
        return [kind for kind in kinds if str(getattr(torch, kind, None)) == f"torch.{kind}"]

    @property
    def shape_text(self) -> str:
        """The shapes of a sample as text."""
        texts = ["×".join(map(str, shape)) or "scalar" for shape, _ in self.shapes[:3]]
        return ", ".join(texts) + (f" and {len(self.shapes) - 3} more" if len(self.shapes) > 3 else "")


@dataclass
class _Moments:
    """Sums of features, around a ``shift`` near their mean so that no digits are lost."""

    count: _Floats
    missing: _Floats
    infinite: _Floats
    zeros: _Floats
    shift: _Floats
    total: _Floats
    squares: _Floats
    low: _Floats
    high: _Floats

    @classmethod
    def of(cls, rows: Tensor, shift: _Floats | None = None) -> _Moments:
        """Return the sums of features × values."""
        values = rows if rows.is_floating_point() else rows.double()
        low, high = torch.aminmax(values, dim=1)
        missing = infinite = torch.zeros(len(values))
        is_finite = bool(low.isfinite().all() and high.isfinite().all())
        if not is_finite:
            missing, infinite, finite = values.isnan().sum(1), values.isinf().sum(1), values.isfinite()
            low = torch.where(finite, values, torch.inf).amin(1)
            high = torch.where(finite, values, -torch.inf).amax(1)
            values = torch.where(finite, values, torch.nan)
        first = values[:, :_ROWS_PER_BLOCK].double().nanmean(1)
        center = torch.nan_to_num(first) if shift is None else torch.tensor(shift)
        deviations = values.double() - center[:, None]
        if not is_finite:
            deviations = torch.nan_to_num(deviations, nan=0.0)
        count, zeros = torch.full((len(values),), values.shape[1]), values.shape[1] - values.count_nonzero(1)
        sums = deviations.sum(1), deviations.square_().sum(1)
        arrays = [count, missing, infinite, zeros, center, *sums, low, high]
        return cls(*(array.double().numpy() for array in arrays))

    def merge(self, other: _Moments) -> _Moments:
        """Return the sums of both; those of different numbers of features become those of a single one."""
        first, second = (self, other) if len(self.count) == len(other.count) else (self.collapse(), other.collapse())
        moved = second.move_to(first.shift)
        added = {
            name: getattr(first, name) + getattr(moved, name)
            for name in ("count", "missing", "infinite", "zeros", "total", "squares")
        }
        ends = {"low": np.minimum(first.low, moved.low), "high": np.maximum(first.high, moved.high)}
        return _Moments(**added, **ends, shift=first.shift)

    @property
    def finite_counts(self) -> _Floats:
        """The numbers of finite values."""
        return np.asarray(self.count - self.missing - self.infinite)

    def move_to(self, shift: _Floats) -> _Moments:
        """Return the same sums around another shift."""
        moved = self.shift - shift
        squares = self.squares + 2 * moved * self.total + moved**2 * self.finite_counts
        return _Moments(
            self.count,
            self.missing,
            self.infinite,
            self.zeros,
            shift,
            self.total + moved * self.finite_counts,
            squares,
            self.low,
            self.high,
        )

    def collapse(self) -> _Moments:
        """Return the sums of all features together."""
        same = self.move_to(np.broadcast_to(self.shift.mean(), self.shift.shape))
        added = {
            name: getattr(same, name).sum(keepdims=True)
            for name in ("count", "missing", "infinite", "zeros", "total", "squares")
        }
        ends = {"low": same.low.min(keepdims=True), "high": same.high.max(keepdims=True)}
        return _Moments(**added, **ends, shift=same.shift[:1])

    def statistics(self, names: Sequence[str]) -> tuple[FeatureStatistics, ...]:
        """Return the statistics of each feature; the standard deviation is that of a sample."""
        finite = self.finite_counts
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(finite > 0, self.shift + self.total / finite, np.nan)
            variance = (self.squares - self.total**2 / finite) / (finite - 1)
            std = np.where(finite > 1, np.sqrt(np.maximum(variance, 0)), np.nan)
            zeros = np.where(finite > 0, self.zeros / finite, np.nan)
        low, high = (np.where(finite > 0, ends, np.nan) for ends in (self.low, self.high))
        columns = zip(names, self.count, self.missing, self.infinite, zeros, mean, std, low, high, strict=True)
        return tuple(
            FeatureStatistics(name, int(count), int(missing), int(infinite), *map(float, others))
            for name, count, missing, infinite, *others in columns
        )


@dataclass
class LeafAccumulator:
    """Accumulates one leaf of a split."""

    role: str
    name: str
    column_names: Sequence[str] | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    shapes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    samples: int = 0
    moments: _Moments | None = None
    lengths: list[int] = field(default_factory=list)
    steps: int = 0
    padded_steps: int = 0
    values: Counter[str] | None = field(default_factory=Counter)
    missing: int = 0
    form: str = ""
    texts: TextCounter | None = None
    blank: int = 0

    def add(self, values: LeafValues, size: int) -> None:
        """Add the values of some samples."""
        if isinstance(values, Tensor):
            self._add_tensor(values, size)
        elif isinstance(values, list):
            self._add_list(values)
        else:
            self.kinds[type(values).__name__] += size
            self.samples += size

    def _add_tensor(self, values: Tensor, size: int) -> None:
        self.kinds[str(values.dtype).removeprefix("torch.")] += size
        has_row_per_sample = values.dim() > 0 and len(values) == size
        self.shapes[tuple(values.shape[1:]) if has_row_per_sample else tuple(values.shape)] += size
        self.samples += size
        if not values.numel():
            return
        self._count_values(values)
        if has_row_per_sample:
            self._count_lengths(values)
            self.blank += int(find_blank_samples(values).sum())
        self._add_rows(self._to_feature_rows(values) if has_row_per_sample else values.reshape(1, -1))

    def _add_rows(self, rows: Tensor) -> None:
        new = _Moments.of(rows, self.moments.shift if self.moments and len(self.moments.count) == len(rows) else None)
        self.moments = new if self.moments is None else self.moments.merge(new)

    def _to_feature_rows(self, values: Tensor) -> Tensor:
        if not self.form:
            self.form = _describe_form(values)
        if self.form == "values":
            return values.reshape(1, -1)
        return feature_rows(values)

    def _count_values(self, values: Tensor) -> None:
        """Count the distinct values of a leaf with one whole number for each sample."""
        is_scalar = values.dim() == 1 or (values.dim() == 2 and values.shape[1] == 1)
        if self.values is None or not is_scalar or not bool((values == values.round()).all()):
            self.values = None
            return
        numbers, counts = torch.unique(values, return_counts=True)
        if len(numbers) + len(self.values) > 2 * _MAX_DISTINCT:
            self.values = None
            return
        self.values.update(dict(zip((f"{number:.0f}" for number in numbers.tolist()), counts.tolist(), strict=True)))

    def _count_lengths(self, values: Tensor) -> None:
        """Count the steps before the padding of sequences."""
        padded = None
        if self.form in ("", "values") and (trailing := find_trailing_padding(values)) is not None:
            padded = trailing[1]
        elif values.dim() == 3:
            padded = find_trailing_frames(values)
        if padded is not None and len(self.lengths) < _MAX_LENGTHS:
            self.lengths += (~padded).sum(1).tolist()
            self.steps += padded.numel()
            self.padded_steps += int(padded.sum())

    def _add_list(self, values: list[Any]) -> None:
        """Add the values of samples that are not collated: tensors of several shapes, texts or numbers."""
        for value in values:
            self.samples += 1
            array = None if isinstance(value, (str, bytes, int, float, bool)) else as_array(value)
            if array is not None and array.dtype.kind in "fiub":
                tensor = torch.from_numpy(np.ascontiguousarray(array))
                self.kinds[str(tensor.dtype).removeprefix("torch.")] += 1
                self.shapes[tuple(tensor.shape)] += 1
                self.values = None
                if tensor.dim() in (1, 2) and not is_image_batch(tensor[None]) and len(self.lengths) < _MAX_LENGTHS:
                    self.lengths.append(len(tensor))
                if tensor.numel():
                    self.blank += int(find_blank_samples(tensor[None]).sum())
                    self._add_rows(tensor.reshape(1, -1))
                continue
            self.kinds[type(value).__name__] += 1
            self._add_value(value)

    def _add_value(self, value: Any) -> None:
        """Add a number or a text."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        self.missing += value is None or value == "" or value != value
        if is_number:
            self._add_rows(torch.tensor([[float(value)]]))
        if isinstance(value, (str, bytes)) and len(self.lengths) < _MAX_LENGTHS:
            self.lengths.append(len(value))
        if isinstance(value, str):
            self.texts = self.texts or TextCounter()
            self.texts.add(value)
        if self.values is not None and isinstance(value, (str, int, bool)):
            self.values[str(value)[:100]] += 1
            if len(self.values) > 2 * _MAX_DISTINCT:
                self.values = None

    def profile(self) -> LeafProfile:
        """Return the statistics of all values so far."""
        count = 0 if self.moments is None else len(self.moments.count)
        features = () if self.moments is None or count > _MAX_FEATURES else self.moments.statistics(self._names(count))
        if self.moments is not None and not features:
            features = self.moments.collapse().statistics([""])
        lengths = self.lengths if len(set(self.lengths)) > 1 else []
        values = self.values or Counter()
        return LeafProfile(
            self.role,
            self.name,
            " or ".join(kind for kind, _ in self.kinds.most_common(3)),
            self.samples,
            tuple(self.shapes.most_common()),
            features,
            tuple(lengths),
            self.padded_steps / self.steps if self.steps else 0.0,
            tuple(values.most_common(_MAX_DISTINCT)),
            len(values) or None,
            self.missing + sum(feature.missing for feature in features),
            self.texts.statistics() if self.texts is not None else None,
            self.blank,
        )

    def _names(self, count: int) -> list[str]:
        if count == 1:
            return [""]
        if self.column_names is not None and len(self.column_names) == count and self.form == "columns":
            return list(self.column_names)
        return [f"{'channel' if self.form == 'channels' else 'column'} {number}" for number in range(count)]


def _describe_form(values: Tensor) -> str:
    """Return whether the features of a batch are its columns, its channels, or all values together."""
    if is_image_batch(values):
        return "channels"
    return "columns" if values.dim() == 2 and not _are_tokens(values) else "values"


def _are_tokens(values: Tensor) -> bool:
    """Return whether integers are tokens of one vocabulary rather than columns: most columns reach its upper half."""
    if values.is_floating_point() or values.dtype in (torch.uint8, torch.bool) or values.shape[1] < _MIN_TOKEN_COLUMNS:
        return False
    highest = values.max(0).values.double()
    is_wide = int(values.min()) >= 0 and float(highest.max()) >= _MIN_TOKENS
    return is_wide and float(highest.median()) >= _MIN_MEDIAN_SHARE * float(highest.max())
