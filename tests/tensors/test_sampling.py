"""Tests of samples of tensor values and of their statistics and histograms per segment."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nbdebug.tensors import sampling
from nbdebug.tensors.histogram_bins import BIN_COUNT
from nbdebug.tensors.sampling import (
    TensorSampler,
    has_nonzero_value,
    sample_values,
    segment_histograms,
    segment_statistics,
    split_segments,
)

SIZES = np.array([1, 700, 3, 512, 512, 40, 2000, 1, 64])
STARTS = np.cumsum(SIZES) - SIZES


def sample_array() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Normal values with zeros, NaN and infinities."""
    array = np.random.default_rng(0).normal(0.1, 2, SIZES.sum()).astype(np.float32)
    array[::7], array[5], array[900], array[-1] = 0, np.inf, np.nan, -np.inf
    return array


@pytest.mark.parametrize("part_size", [1, 600, 1 << 16])
def test_segment_statistics_in_parts_equal_numpy(part_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_VALUES_PER_PART", part_size)
    values, lengths = sample_array(), SIZES * np.where(SIZES == 512, 9, 1)
    table, counts = segment_statistics(values, STARTS, lengths), segment_histograms(values, STARTS)
    assert counts.shape == (len(SIZES), BIN_COUNT)
    for i, (start, size) in enumerate(zip(STARTS, SIZES, strict=True)):
        segment = values[start : start + size]
        finite = segment[np.isfinite(segment)].astype(np.float64)
        norm, mean, std, absmax, zeros, nonfinite = table[i]
        assert nonfinite == pytest.approx(1 - len(finite) / size)
        assert zeros == pytest.approx((segment == 0).sum() / size)
        assert counts[i].sum() == len(finite)
        assert np.isnan(absmax) == (size < lengths[i])
        if len(finite):
            assert mean == pytest.approx(finite.mean(), abs=1e-6)
            assert std == pytest.approx(finite.std(), rel=1e-5, abs=1e-6)
            assert norm == pytest.approx(np.sqrt((finite**2).mean() * lengths[i]), rel=1e-5)


def test_split_segments_yields_all_segments_unbroken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_VALUES_PER_PART", 600)
    values, indices = sample_array(), []
    for segments, part, starts in split_segments(values, STARTS):
        indices += list(range(len(SIZES)))[segments]
        assert len(part) <= 600 or len(starts) == 1
        assert (part[starts].view(np.uint32) == values[STARTS[segments]].view(np.uint32)).all()
    assert indices == list(range(len(SIZES)))


BASE = torch.arange(4 * 6 * 20 * 20, dtype=torch.float32).reshape(4, 6, 20, 20)


@pytest.mark.parametrize(
    "tensor",
    [
        BASE,
        BASE.to(memory_format=torch.channels_last),
        BASE.transpose(0, 3),
        BASE[:, ::2],
        BASE.double(),
        BASE.clone().requires_grad_(),
        BASE.flatten()[:100],
        BASE[:1, :1].transpose(2, 3),
    ],
    ids=["plain", "channels_last", "transposed", "strided", "double", "requires_grad", "short", "short_transposed"],
)
def test_sample_values_returns_copies_of_tensor_values(tensor: Tensor) -> None:
    sample, length = sample_values(tensor, 512)
    assert length == tensor.numel()
    assert sample.shape == (min(512, length),)
    assert not sample.requires_grad
    assert torch.isin(sample, tensor.detach()).all()
    before = sample.clone()
    with torch.no_grad():
        tensor.add_(0.5)
    assert torch.equal(sample, before)
    with torch.no_grad():
        tensor.sub_(0.5)


def test_tensor_sampler_gathers_same_positions_for_any_dtype_and_layout() -> None:
    first, second = BASE.flatten()[:2000].reshape(40, 50), BASE.flatten()[:30]
    sampler = TensorSampler([first, second], max_samples=512)
    plain = sampler.gather([first, second])
    assert plain.shape == (542,)
    assert torch.equal(plain[512:], second)
    for variant in (first.double(), first.to_sparse(), torch.nn.Parameter(first), first.t().contiguous().t()):
        gathered = sampler.gather([variant, None])
        assert gathered.dtype is torch.float32
        assert not gathered.requires_grad
        assert torch.equal(gathered[512:], torch.zeros(30))
        assert torch.isin(gathered[:512], first).all()
    assert torch.equal(sampler.gather([first.double(), second]), plain)
    assert sampler.gather([first[:3], second[:0]]).shape == (542,)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (9000,), (1, 9000), (3, 50, 70), (1, 1, 100, 100), (2, 0, 5)])
def test_has_nonzero_value_finds_last_and_tiny_values_and_nan(shape: tuple[int, ...]) -> None:
    values = torch.zeros(shape)
    assert not has_nonzero_value(values)
    for value in (1e-38, float("nan")) if values.numel() else ():
        values.view(-1)[-1] = value
        assert has_nonzero_value(values)
        assert has_nonzero_value(values.mT if values.dim() > 1 else values)
