"""Targets that are mirrored with their images while their left and right channels do not change places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.mirrored_reads import MIN_PAIRS, MirroredReads, find_mirroring_line, search_mirrored
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine

_MIN_SIDE, _MAX_SIDE, _MAX_IMAGE_CHANNELS, _MAX_CHANNELS, _MAX_ROWS = 8, 64, 3, 40, 200
_MIN_ROWS, _MIN_ORDERED = 60, 0.95
_RADIUS_SHARE, _RIDGE_STRENGTH = 0.12, 0.1
_MIN_RECOGNITION, _MAX_SEPARATION = 0.8, 0.6
_CENTER_TOLERANCE, _MAX_ERROR = 0.06, 0.02  # of the side of the image
_AXES = {"left to right": -1, "upside down": -2}


@dataclass(frozen=True)
class UnexchangedChannels:
    """Two channels of targets that a mirror exchanges, and the augmentation does not.

    In the share ``ordered`` of ``rows`` validation samples, channel ``first`` lies before channel ``second`` along the
    mirrored axis. ``samples`` is the number of pairs of mirrored reads of training samples. A learner tells the
    surroundings of the first, mirrored, from those of the second with the accuracy ``separation``, and those of both
    from other places with the accuracy ``recognition``.
    """

    first: int
    second: int
    mirror: str
    samples: int
    rows: int
    ordered: float
    separation: float
    recognition: float
    line: SourceLine | None


@slow_measurement
def unexchanged_channels(setup: Setup, tables: dict[str, SplitTable]) -> UnexchangedChannels | None:
    """Two channels of the training targets that should change places in mirrored images; None if there are none."""
    return search_mirrored(setup, tables, _as_rows, partial(_search_mirrors, setup))


def _search_mirrors(
    setup: Setup, pairs: list[MirroredReads], images: Tensor, targets: Tensor
) -> UnexchangedChannels | None:
    """Return the channels that the first kind of mirror should exchange; half a turn exchanges none."""
    by_mirror = {name: [pair for pair in pairs if pair.mirror == name] for name in _AXES}
    searches = (
        _find_unexchanged(setup, name, own_pairs, images, targets)
        for name, own_pairs in by_mirror.items()
        if len(own_pairs) >= MIN_PAIRS
    )
    return next(filter(None, searches), None)


def _as_rows(inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> tuple[Tensor, Tensor] | None:
    """Return images, and heat maps or the coordinates of points; None for other samples."""
    if len(inputs) != 1 or len(targets) != 1 or not targets[0].is_floating_point():
        return None
    images, target = inputs[0][:_MAX_ROWS], targets[0][:_MAX_ROWS].double()
    is_image = images.dim() in (3, 4) and (images.is_floating_point() or images.dtype == torch.uint8)
    if not is_image or min(images.shape[-2:]) < _MIN_SIDE:
        return None
    if target.dim() == 2 and target.shape[1] % 2 == 0:
        target = target.reshape(len(target), -1, 2)
    is_points = target.dim() == 3 and target.shape[2] == 2
    if not (is_points or (target.dim() == 4 and min(target.shape[2:]) >= _MIN_SIDE // 2)):
        return None
    images = (images[:, None] if images.dim() == 3 else images[:, :_MAX_IMAGE_CHANNELS]).double()
    return (images, target) if 2 <= target.shape[1] <= _MAX_CHANNELS else None


def _find_unexchanged(
    setup: Setup, mirror: str, pairs: list[MirroredReads], images: Tensor, targets: Tensor
) -> UnexchangedChannels | None:
    """Return two channels with a constant order in validation, whose surroundings are mirror images, if they stay."""
    axis = _AXES[mirror]
    center = _mirror_center(pairs, axis)
    if center is None:
        return None
    size = torch.tensor(images.shape[-2:]).double()
    places = _places(targets, size, center)
    for first, second in permutations(range(targets.shape[1]), 2):
        is_before = places[:, first, axis] < places[:, second, axis]
        is_known = places[:, [first, second]].isfinite().flatten(1).all(1)
        if is_known.sum() < _MIN_ROWS or is_before[is_known].double().mean() < _MIN_ORDERED:
            continue
        surroundings = [_surroundings(images[is_known], places[is_known, channel]) for channel in (first, second)]
        others = _surroundings(images[is_known], places[is_known, first].roll(len(images) // 2 + 1, 0))
        recognition = min(_accuracy(part, others) for part in surroundings)
        separation = _accuracy(surroundings[0].flip(axis), surroundings[1])
        if recognition >= _MIN_RECOGNITION and separation <= _MAX_SEPARATION:
            line = find_mirroring_line(setup, _as_rows, pairs[0])
            share, count = float(is_before[is_known].double().mean()), int(is_known.sum())
            return UnexchangedChannels(first, second, mirror, len(pairs), count, share, separation, recognition, line)
    return None


def _mirror_center(pairs: list[MirroredReads], axis: int) -> float | None:
    """Return twice the coordinate that stays when points are mirrored, 0 for maps; None if targets move otherwise."""
    targets = [torch.cat(part) for part in zip(*(pair.targets for pair in pairs), strict=True)]
    if targets[0].dim() == 4:
        return 0.0 if torch.allclose(targets[0].flip(axis), targets[1], atol=1e-5) else None
    column = 0 if axis == -1 else 1  # points are (x, y), and images have rows first
    sums = targets[0][..., column] + targets[1][..., column]
    sums = sums[sums.isfinite()]
    spread = float((targets[0][..., column] - targets[1][..., column]).abs().max())
    is_mirrored = len(sums) and float((sums - sums.median()).abs().max()) < _MAX_ERROR * spread
    return float(sums.median()) if is_mirrored and torch.equal(*(t[..., 1 - column] for t in targets)) else None


def _places(targets: Tensor, size: Tensor, center: float) -> Tensor:
    """Return the row and column of each channel of each sample, NaN where it has none."""
    if targets.dim() == 4:
        flat = targets.flatten(2)
        peaks, places = flat.max(2)
        rows_columns = torch.stack(torch.unravel_index(places, targets.shape[2:]), -1).double()
        is_shown = (peaks > 0.5 * flat.max()) & (peaks > flat.mean(2))
        places = (rows_columns + 0.5) * (size / torch.tensor(targets.shape[2:]))
        return places.where(is_shown[..., None], torch.tensor(torch.nan, dtype=torch.double))
    points = targets.flip(2)  # from (x, y)
    for low, high in ((torch.zeros(2), torch.ones(2)), (-torch.ones(2), torch.ones(2)), (torch.zeros(2), size)):
        if any(abs(center - float(low[0] + high[k])) <= _CENTER_TOLERANCE * float(high[k] - low[0]) for k in (0, 1)):
            return (points - low) / (high - low) * size
    return torch.full_like(points, torch.nan)


def _surroundings(images: Tensor, places: Tensor) -> Tensor:
    """Return the part of each image around its place."""
    size = torch.tensor(images.shape[-2:]).double()
    if max(images.shape[-2:]) > _MAX_SIDE:
        height, width = images.shape[-2:]
        images = F.adaptive_avg_pool2d(images, (min(height, _MAX_SIDE), min(width, _MAX_SIDE)))
    places = places * torch.tensor(images.shape[-2:]) / size
    radius = max(2, round(_RADIUS_SHARE * max(images.shape[-2:])))
    padded = F.pad(images, (radius,) * 4, mode="replicate")
    corners = places.floor().long().clamp(min=torch.zeros(2).long(), max=torch.tensor(images.shape[-2:]) - 1)
    span = 2 * radius + 1
    parts = zip(padded, corners.tolist(), strict=True)
    return torch.stack([image[:, row : row + span, column : column + span] for image, (row, column) in parts])


def _accuracy(first: Tensor, second: Tensor) -> float:
    """Return how often a kernel ridge regression of half of two groups tells those of the other half apart."""
    x = torch.cat([first, second]).flatten(1)
    x = (x - x.mean(0)) / x.std().clamp_min(1e-9)
    labels = torch.cat([torch.ones(len(first)), -torch.ones(len(second))]).double()
    distances = torch.cdist(x, x).square()
    kernel = torch.exp(-distances / distances.median().clamp_min(1e-9))
    is_even = torch.cat([torch.arange(len(first)), torch.arange(len(second))]) % 2 == 0
    hits = torch.zeros(len(x))
    for own in (is_even, ~is_even):
        ridge = _RIDGE_STRENGTH * torch.eye(int((~own).sum()), dtype=torch.double)
        weights = torch.linalg.solve(kernel[~own][:, ~own] + ridge, labels[~own])
        hits[own] = (kernel[own][:, ~own] @ weights * labels[own] > 0).float()
    return float(hits.mean())
