"""Samples of tensors, and what is counted of them: the same in parts as whole, and for every layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nbdebug.tensors import sampling
from nbdebug.tensors.histogram_bins import BIN_COUNT
from nbdebug.tensors.sampling import (
    TensorSampler,
    sample_values,
    segment_histograms,
    segment_statistics,
    split_segments,
)

SIZES = np.array([1, 700, 3, 512, 512, 40, 2000, 1, 64])
STARTS = np.cumsum(SIZES) - SIZES


def values() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    found = np.random.default_rng(0).normal(0.1, 2, SIZES.sum()).astype(np.float32)
    found[::7], found[5], found[900], found[-1] = 0, np.inf, np.nan, -np.inf
    return found


@pytest.mark.parametrize("part", [1, 600, 1 << 16])
def test_what_is_counted_in_parts_is_what_numpy_counts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_VALUES_PER_PART", part)
    given, lengths = values(), SIZES * np.where(SIZES == 512, 9, 1)
    table, counts = segment_statistics(given, STARTS, lengths), segment_histograms(given, STARTS)
    assert counts.shape == (len(SIZES), BIN_COUNT)
    for i, (start, size) in enumerate(zip(STARTS, SIZES, strict=True)):
        own = given[start : start + size]
        good = own[np.isfinite(own)].astype(np.float64)
        norm, mean, std, absmax, zeros, nonfinite = table[i]
        assert nonfinite == pytest.approx(1 - len(good) / size)
        assert zeros == pytest.approx((own == 0).sum() / size)
        assert counts[i].sum() == len(good)
        assert np.isnan(absmax) == (size < lengths[i])
        if len(good):
            assert mean == pytest.approx(good.mean(), abs=1e-6)
            assert std == pytest.approx(good.std(), rel=1e-5, abs=1e-6)
            assert norm == pytest.approx(np.sqrt((good**2).mean() * lengths[i]), rel=1e-5)


def test_parts_are_whole_stretches_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_VALUES_PER_PART", 600)
    given, seen = values(), []
    for which, some, begins in split_segments(given, STARTS):
        seen += list(range(len(SIZES)))[which]
        assert len(some) <= 600 or len(begins) == 1
        assert (some[begins].view(np.uint32) == given[STARTS[which]].view(np.uint32)).all()
    assert seen == list(range(len(SIZES)))


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
    ids=["plain", "channels last", "turned", "every second", "double", "with a gradient", "short", "short and turned"],
)
def test_samples_are_copies_of_values_that_are_there(tensor: Tensor) -> None:
    found, length = sample_values(tensor, 512)
    assert length == tensor.numel()
    assert found.shape == (min(512, length),)
    assert not found.requires_grad
    assert torch.isin(found, tensor.detach()).all()
    before = found.clone()
    with torch.no_grad():
        tensor.add_(0.5)
    assert torch.equal(found, before)
    with torch.no_grad():
        tensor.sub_(0.5)


def test_a_gather_meets_the_same_places_whatever_became_of_the_tensors() -> None:
    first, second = BASE.flatten()[:2000].reshape(40, 50), BASE.flatten()[:30]
    sampler = TensorSampler([first, second], max_samples=512)
    plain = sampler.gather([first, second])
    assert plain.shape == (542,)
    assert torch.equal(plain[512:], second)
    for other in (first.double(), first.to_sparse(), torch.nn.Parameter(first), first.t().contiguous().t()):
        found = sampler.gather([other, None])
        assert found.dtype is torch.float32
        assert not found.requires_grad
        assert torch.equal(found[512:], torch.zeros(30))
        assert torch.isin(found[:512], first).all()
    assert torch.equal(sampler.gather([first.double(), second]), plain)
    assert sampler.gather([first[:3], second[:0]]).shape == (542,)
