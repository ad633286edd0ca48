"""Fixed random samples of tensors; statistics and histograms of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.tensors.histogram_bins import (
    BIN_COUNT,
    BINS_PER_SIGN,
    MAX_EXPONENT,
    MIN_EXPONENT,
    TENSOR_STATISTICS,
    ZERO_BIN,
)

MAX_SAMPLES_PER_TENSOR = 2048
MAX_VALUES_PER_PART = (
    1 << 16
)  # values; malloc maps larger arrays on every call, and the page faults cost three times the sums
_FIRST_VALUES = 4096  # of a tensor, which are inspected before all others
_PLAIN_TENSOR_TYPES = (Tensor, nn.Parameter)  # a subclass may override these operations
_Float32Array = NDArray[np.float32]
_IndexArray = NDArray[np.int64]


def strided_sample(tensor: Tensor, limit: int) -> Tensor:
    """Return roughly ``limit`` values of a tensor at a fixed odd stride, so that no column of a matrix is favored."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // limit) | 1]


class TensorSampler:
    """Samples the same indices of the same tensors every time, so that two samples of weights differ by their update.

    ``sizes`` are the numbers of sampled values per tensor, ``lengths`` the full sizes.
    """

    def __init__(self, tensors: Sequence[Tensor], max_samples: int = MAX_SAMPLES_PER_TENSOR) -> None:
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self.lengths = np.array([flatten(tensor).numel() for tensor in tensors], np.int64)
        self.sizes = np.minimum(self.lengths, max_samples)
        self.indices = [
            self.sample_indices(tensor, length, max_samples)
            for tensor, length in zip(tensors, self.lengths.tolist(), strict=True)
        ]
        self.total_size, self.all_plain = (
            int(self.sizes.sum()),
            all(type(tensor) in _PLAIN_TENSOR_TYPES for tensor in tensors),
        )

    def sample_indices(self, tensor: Tensor, length: int, max_samples: int) -> Tensor | None:
        """Return the sampled indices of a tensor; None for a short 1-d tensor, which is taken whole."""
        indices = _random_indices(length, max_samples, tensor.device)
        return torch.arange(length, device=tensor.device) if indices is None and tensor.dim() != 1 else indices

    def gather(self, tensors: Sequence[Tensor | None]) -> Tensor:
        """Return the samples of all tensors in one float32 row on the device of the first; zero for a missing tensor.

        Right after a backward pass each call costs up to 10 µs, and ``no_grad`` 25: so this reads ``.data``, and tries
        the fast path instead of checking its conditions.
        """
        plain_tensors: Sequence[Any] = tensors if self.all_plain else [None] * len(tensors)
        try:
            pairs = zip(plain_tensors, self.indices, strict=True)
            values = torch.cat(
                [tensor.data if indices is None else tensor.data.take(indices) for tensor, indices in pairs]
            )
            if len(values) == self.total_size and values.dtype is torch.float32:
                return values
        except (AttributeError, RuntimeError, IndexError):  # missing, sparse, on another device, or resized
            pass
        parts = [self.gather_tensor(*item) for item in zip(tensors, self.indices, self.lengths.tolist(), strict=True)]
        return torch.cat(parts) if parts else torch.zeros(0)

    def gather_tensor(self, tensor: Tensor | None, indices: Tensor | None, length: int) -> Tensor:
        """Return the samples of one tensor of any layout, dtype, device and present size."""
        size = length if indices is None else len(indices)
        if tensor is None:
            return torch.zeros(size, device=self.device)
        is_plain = type(tensor) in _PLAIN_TENSOR_TYPES and tensor.layout is torch.strided and not tensor.is_complex()
        values = tensor.detach() if is_plain else flatten(tensor)
        if values.numel() != length:
            values = flatten(values) if values.numel() else values.new_zeros(1)
            indices = torch.arange(size, device=values.device) % values.numel()
        samples = values if indices is None else values.take(indices)
        return samples.to(self.device, torch.float32)


def sample_values(tensor: Tensor, max_samples: int) -> tuple[Tensor, int]:
    """Return a copy of up to ``max_samples`` values of a tensor, and its number of values."""
    if type(tensor) is Tensor and tensor.is_cpu and tensor.layout is torch.strided:
        indices = _random_indices(tensor.numel(), max_samples, tensor.device)
        if indices is not None:
            return tensor.data.take(indices), tensor.numel()  # half of the calls below
    values = flatten(tensor)
    indices = _random_indices(values.numel(), max_samples, values.device)
    return values.clone() if indices is None else values.index_select(0, indices), values.numel()


@lru_cache(maxsize=256)
def _random_indices(length: int, max_samples: int, device: torch.device) -> Tensor | None:
    """Return sorted random indices, the same for each length, or None to take all values."""
    if length <= max_samples:
        return None
    random = np.random.default_rng(length)
    return torch.from_numpy(np.sort(random.integers(0, length, max_samples))).to(device)


def flatten(tensor: Tensor) -> Tensor:
    """Return the values of a tensor as one axis, without a copy if possible; of a sparse tensor its stored values."""
    values = tensor.detach()
    if values.layout is torch.strided and values.is_contiguous() and not values.is_complex():
        return values.view(-1)
    if values.layout is torch.sparse_coo:
        values = values.coalesce().values() if not values.is_coalesced() else values.values()
    elif values.layout is not torch.strided:
        values = values.values()
    if values.is_complex():
        values = torch.view_as_real(values)
    if not values.is_contiguous() and torch.ops.aten.is_non_overlapping_and_dense(values):
        return values.as_strided((values.numel(),), (1,))
    return values.reshape(-1)


def squared_norm(tensors: Sequence[Tensor], device: torch.device) -> Tensor | float:
    """Return the exact squared norm of all tensors together, in one pass; a number unless it is on an accelerator.

    Adding the numbers of a few tensors takes less time than to make a tensor of them.
    """
    if all(map(_has_fast_dot_product, tensors)):
        return float(sum([torch.dot(flat, flat).item() for flat in [tensor.detach().view(-1) for tensor in tensors]]))
    detached = [tensor.detach() for tensor in tensors]
    dense = [tensor if tensor.layout is torch.strided else flatten(tensor) for tensor in detached]
    norms = torch.stack([tensor.to(device, torch.float32) for tensor in tensor_norms(dense)])
    return torch.dot(norms, norms)


def tensor_norms(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the norm of each strided tensor.

    On the CPU, the dot product of a tensor with itself takes a third of the time of torch's norm, with a smaller error.
    """
    if all(map(_has_fast_dot_product, tensors)):
        return [torch.dot(flat, flat).sqrt_() for flat in [tensor.detach().view(-1) for tensor in tensors]]
    return torch._foreach_norm(list(tensors))


def _has_fast_dot_product(tensor: Tensor) -> bool:
    is_plain = type(tensor) in _PLAIN_TENSOR_TYPES and tensor.is_cpu
    return is_plain and tensor.dtype is torch.float32 and tensor.is_contiguous()


def max_absolute(tensor: Tensor) -> Tensor:
    """Return the largest absolute value of a tensor on its device, or NaN if the tensor contains NaN.

    The norm of infinite order takes ten times as long.
    """
    low, high = flatten(tensor).aminmax()
    return high.maximum(-low).float()


def has_nonzero_value(values: Tensor) -> bool:
    """Return whether a tensor on the CPU has a value other than zero, which its first ones may show."""
    first = values
    while first.dim() and first.numel() > _FIRST_VALUES:
        first = first[: max(_FIRST_VALUES * len(first) // first.numel(), 1)] if len(first) > 1 else first[0]
    return bool(first.any()) or (first is not values and bool(values.any()))


def split_segments(values: _Float32Array, starts: _IndexArray) -> Iterator[tuple[slice, _Float32Array, _IndexArray]]:
    """Yield consecutive segments in parts: their rows, their values, and the start of each segment.

    A part has at most MAX_VALUES_PER_PART values, or is one longer segment.
    """
    ends, first = np.append(starts[1:], len(values)), 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + MAX_VALUES_PER_PART, side="right")))
        yield slice(first, last), values[starts[first] : ends[last - 1]], starts[first:last] - starts[first]
        first = last


def segment_statistics(values: _Float32Array, starts: _IndexArray, lengths: _IndexArray) -> _Float32Array:
    """Return STATISTICS of each segment of ``values`` that begins at ``starts``, one row per segment.

    The norm is scaled to ``lengths`` values; the maximum is NaN unless all values were sampled. Mean, deviation and
    norm are those of the finite values.
    """
    table = np.full((len(starts), len(TENSOR_STATISTICS)), np.nan, np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for rows, part_values, part_starts in split_segments(values, starts):
            if len(part_values):
                _write_statistics(part_values, part_starts, lengths[rows], table[rows])
    return table


def _write_statistics(values: _Float32Array, starts: _IndexArray, lengths: _IndexArray, table: _Float32Array) -> None:
    """Write the rows of ``segment_statistics``."""
    sizes, non_finite_counts = np.diff(starts, append=len(values)), np.zeros(len(starts))
    if not np.isfinite(values.sum()):
        is_non_finite = ~np.isfinite(values)
        non_finite_counts = np.add.reduceat(is_non_finite, starts, dtype=np.float64)
        values = np.where(is_non_finite, np.float32(0), values)
    finite_counts, double_values, absolute = (
        np.maximum(sizes - non_finite_counts, 1),
        values.astype(np.float64),
        np.abs(values),
    )
    mean = np.add.reduceat(double_values, starts) / finite_counts
    square = np.add.reduceat(np.square(double_values, out=double_values), starts) / finite_counts
    table[:, 0] = np.sqrt(square * lengths)
    table[:, 1] = mean
    table[:, 2] = np.sqrt(np.maximum(square - mean * mean, 0))
    table[:, 3] = np.where(sizes >= lengths, np.maximum.reduceat(absolute, starts), np.nan)
    table[:, 4] = (np.add.reduceat(np.equal(values, 0, out=absolute), starts) - non_finite_counts) / sizes
    table[:, 5] = non_finite_counts / sizes


@cache
def _bin_by_high_bits() -> NDArray[np.int64]:
    """Return the bin for the highest ten bits of a float32 (sign, exponent, half octave); COUNT if not finite."""
    bits = np.arange(1024)
    exponent, half = (bits >> 1 & 255) - 127, bits & 1
    step = np.clip(2 * (exponent - MIN_EXPONENT) + half, -1, BINS_PER_SIGN - 1) + 1
    signed = np.where(bits >> 9, ZERO_BIN - step, ZERO_BIN + step)
    assert MAX_EXPONENT > MIN_EXPONENT
    return np.where(exponent == 128, BIN_COUNT, signed)


def segment_histograms(values: _Float32Array, starts: _IndexArray) -> NDArray[np.int64]:
    """Return the histogram of each segment, one row per segment, without non-finite values."""
    table = np.zeros((len(starts), BIN_COUNT + 1), np.int64)
    for rows, part_values, part_starts in split_segments(values, starts):
        bits = np.ascontiguousarray(part_values).view(np.uint32) >> 22
        index = _bin_by_high_bits().take(bits.astype(np.intp))
        index += np.repeat(np.arange(len(part_starts)) * (BIN_COUNT + 1), np.diff(part_starts, append=len(part_values)))
        table[rows] = np.bincount(index, minlength=len(part_starts) * (BIN_COUNT + 1)).reshape(len(part_starts), -1)
    return table[:, :BIN_COUNT]
