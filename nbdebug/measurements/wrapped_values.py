"""Images whose values an augmentation carries over the end of an integer type, so that they return at the other end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style, reads_tensor_dataset
from nbdebug.source.appearing_values import find_appearance
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_leaves

_SAMPLES, _MIN_SAMPLES, _READS = 12, 3, 6
_MIN_SIDE, _MAX_VALUES, _MAX_DISTINCT = 4, 500_000, 3
_LEVELS = 256  # of an 8-bit type
_MIN_PAIRS, _MIN_SHARE = 5, 0.005
_ROUNDING, _SAME_VALUES = 2e-3, 1 - 1e-6


@dataclass(frozen=True)
class WrappedValues:
    """Pairs of reads of a sample between which all values change by a constant, or by this less or plus the ``period``.

    The period has exactly 256 steps of the values. ``share`` is that of the values that changed by another number than
    most do, in the ``pairs`` of reads of ``samples`` samples with such values.
    """

    period: float
    pairs: int
    samples: int
    share: float
    line: SourceLine | None


@dataclass(frozen=True)
class _ChannelChange:
    """The numbers by which the values of one channel change between two reads, and which values changed how."""

    sample: int
    seeds: tuple[int, int]
    channel: int
    gap: float
    share: float


@slow_measurement
def wrapped_values(setup: Setup) -> WrappedValues | None:
    """Values of training images that leave the range of 8 bits and return at its other end; None if there are none."""
    loader = setup.train_loader
    if not is_map_style(loader) or reads_tensor_dataset(loader):
        return None
    indices = get_visited_indices(loader)
    sampled_indices = indices[:: max(len(indices) // _SAMPLES, 1)][:_SAMPLES]
    changes, reads = list[_ChannelChange](), list[Tensor]()
    try:
        with Preserve(loader.dataset), torch.no_grad():
            for index in sampled_indices:
                images = [_read(loader.dataset, index, seed) for seed in range(_READS)]
                single_images = [image for image in images if image is not None]
                has_one_shape = len(single_images) == _READS and len({image.shape for image in single_images}) == 1
                own_changes = [*_changes(index, single_images)] if has_one_shape else None
                if not own_changes:
                    return None
                changes += own_changes
                reads += single_images
            return _judge(loader.dataset, changes, reads)
    except Exception:  # samples that cannot be read are reported elsewhere
        return None


def _read(dataset: Any, index: int, seed: int) -> Tensor | None:
    """Return the only image of a sample with its channels first; None for others."""
    seed_all(seed)
    leaves = [leaf for _, leaf in tree_leaves(dataset[index]) if isinstance(leaf, (Tensor, np.ndarray))]
    images = [torch.as_tensor(leaf) for leaf in leaves if leaf.ndim in (2, 3) and min(leaf.shape[-2:]) >= _MIN_SIDE]
    if len(images) != 1 or images[0].numel() > _MAX_VALUES or images[0].is_complex():
        return None
    image = images[0].double()
    return image[None] if image.dim() == 2 else image


def _changes(index: int, images: list[Tensor]) -> Iterator[_ChannelChange]:
    """Yield how each channel changes between each two reads; nothing if one of them changes in another way."""
    changes = list[_ChannelChange]()
    for (first, image), (second, other) in combinations(enumerate(images), 2):
        scale = float(torch.stack([image, other]).abs().max())
        for channel, difference in enumerate(other - image):
            values, counts = (difference / max(scale, 1e-12) / _ROUNDING).round().unique(return_counts=True)
            if len(values) > _MAX_DISTINCT:
                return
            gaps = values.diff() * _ROUNDING * scale
            gap = float(gaps.mean()) if len(gaps) else 0.0
            if len(gaps) == 2 and abs(float(gaps[0] - gaps[1])) > 4 * _ROUNDING * scale:
                return
            share = 1 - float(counts.max() / counts.sum())
            changes.append(_ChannelChange(index, (first, second), channel, gap, share))
    yield from changes


def _judge(dataset: Any, changes: list[_ChannelChange], reads: list[Tensor]) -> WrappedValues | None:
    """Return the wrapped values if all steps have one size, which is 256 steps of the values and beyond their range."""
    wrapped = [change for change in changes if change.gap > 0]
    samples = {change.sample for change in wrapped}
    has_all_channels = {change.channel for change in wrapped} == {change.channel for change in changes}
    if len(samples) < _MIN_SAMPLES or len(wrapped) < _MIN_PAIRS or not has_all_channels:
        return None  # of the channels of a color in polar coordinates, only the hue returns to its start
    values = torch.cat([image.flatten() for image in reads])
    span = float(values.max() - values.min())
    rough = float(torch.tensor([change.gap for change in wrapped]).median())
    steps = values.unique().diff()  # type: ignore[no-untyped-call]
    step = float(steps[steps > rough / _LEVELS / 2].min())
    period = step * _LEVELS
    is_period = all(abs(change.gap - period) < 0.01 * period for change in wrapped) and span < period
    places = (values - values.min()) / step
    is_grid = bool((places - places.round()).abs().max() < 0.05)
    share = sum(change.share for change in wrapped) / len(wrapped)
    if not is_period or not is_grid or share < _MIN_SHARE:
        return None
    pairs = len({(change.sample, change.seeds) for change in wrapped})
    return WrappedValues(period, pairs, len(samples), share, _find_line(dataset, wrapped))


def _find_line(dataset: Any, wrapped: list[_ChannelChange]) -> SourceLine | None:
    """Return the line that first makes values at the other end, in the two reads that differ most.

    The values of a read without any are already stored, up to a factor and a constant, so that the other read has them.
    """
    most = max(wrapped, key=lambda change: change.share)
    for seed, other in (most.seeds, most.seeds[::-1]):
        values = _read(dataset, most.sample, seed)
        if values is not None and _making_line(dataset, most.sample, other, values) is None:
            return _making_line(dataset, most.sample, seed, values)
    return None


def _making_line(dataset: Any, index: int, seed: int, values: Tensor) -> SourceLine | None:
    """Return the line that first makes some values when a sample is read, in any order and on any scale."""
    expected = values.flatten().sort().values

    def has_values(value: Any) -> bool:
        is_array = isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype.kind in "iufb")
        if not is_array or torch.as_tensor(value).numel() != len(expected):
            return False
        own = torch.as_tensor(value).double().flatten().sort().values
        return float(torch.corrcoef(torch.stack([own, expected]))[0, 1]) > _SAME_VALUES

    return find_appearance(partial(_read, dataset, index, seed), has_values)
