"""Whether the positions of one channel are on scales far apart, as the columns of a table that share a channel."""

from __future__ import annotations

import torch
from torch import Tensor

_MIN_SAMPLES, _MIN_POSITIONS = 8, 8
_MIN_VARIED_SHARE = 0.5  # of the samples that have another value at a position than its median
_MIN_GAP = 50.0  # between the scales of two groups of positions; darker halves of images come closer
_MIN_GROUP_SHARE = 0.25  # of the positions that vary
# Of neighbors along an axis, and of each line along it. A quiet part of a signal and a loud one change once or twice.
_MIN_CHANGED_SHARE, _MIN_CHANGES = 0.2, 3.0
_MAX_SAMPLES, _MAX_FEATURES, _MAX_LENGTH = 64, 8, 128  # of the data that are looked at, the last along each axis


def mixes_scales(data: Tensor, axis: int) -> bool:
    """Return whether the positions of one feature alternate between two scales that are far apart.

    A normalization of the channel does not help then: the sums over its positions hold only the larger ones. ``data``
    has the samples along its first axis and the features along ``axis``; the positions are along the axes after it.
    Positions at which most samples have one value, such as the border of drawings, do not count. Scales that change
    gradually, as those of a spectrum do, have no gap. Scales that change once or twice along an axis are those of the
    parts of a signal, such as before and after an onset.
    """
    axis %= data.dim()
    if data.is_complex() or not 0 < axis < data.dim() - 1 or len(data) < _MIN_SAMPLES or not data[0].numel():
        return False
    crop = (slice(_MAX_SAMPLES), slice(_MAX_FEATURES), *[slice(_MAX_LENGTH)] * (data.dim() - 2))
    by_feature = data.detach().movedim(axis, 1)[crop].float()
    return any(_alternates(by_feature[:, feature]) for feature in range(by_feature.shape[1]))


def _alternates(values: Tensor) -> bool:
    """Return whether large groups of positions have scales with a gap between them, and alternate along an axis."""
    scales = values.square().mean(0).sqrt()
    if float(scales.max()) <= _MIN_GAP * float(scales.min()):
        return False
    is_varied = _are_varied(values)
    bound = _scale_between_groups(scales[is_varied])
    return bound is not None and any(_changes_often(scales > bound, is_varied, axis) for axis in range(scales.dim()))


def _are_varied(values: Tensor) -> Tensor:
    """Return whether most samples differ from the commonest value at each position.

    A value of more than half of the samples is their median.
    """
    return (values != values.median(0).values).float().mean(0) >= _MIN_VARIED_SHARE


def _scale_between_groups(scales: Tensor) -> float | None:
    """Return a number in a gap that has large groups of the scales on both sides; None if there is none."""
    if len(scales) < _MIN_POSITIONS:
        return None
    scales = scales.sort().values
    fewest = max(int(_MIN_GROUP_SHARE * len(scales)), 1)
    lower, upper = scales[fewest - 1 : -fewest], scales[fewest : len(scales) - fewest + 1]
    ratios = upper / lower.clamp_min(torch.finfo(scales.dtype).tiny)
    return float(lower[ratios.argmax()]) if bool(ratios.max() > _MIN_GAP) else None


def _changes_often(is_large: Tensor, is_varied: Tensor, axis: int) -> bool:
    """Return whether neighbors along an axis are often in different groups; both tensors have one value a position."""
    is_large, is_varied = is_large.movedim(axis, -1), is_varied.movedim(axis, -1)
    is_pair = is_varied[..., 1:] & is_varied[..., :-1]
    changes, pairs = float((is_pair & (is_large[..., 1:] != is_large[..., :-1])).sum()), float(is_pair.sum())
    lines = float(is_pair.any(-1).sum())
    return pairs > 0 and changes >= max(_MIN_CHANGED_SHARE * pairs, _MIN_CHANGES * lines)
