"""Positions in targets that stay where they were while their images are mirrored at random."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.mirrored_reads import (
    MIN_PAIRS,
    MIRRORS,
    MirroredReads,
    find_mirroring_line,
    search_mirrored,
)
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine

_MIN_SIDE, _MAX_TARGETS, _MAX_CHANNELS, _MIN_DISTINCT = 4, 32, 3, 10
_MAX_ROWS, _GRID, _RIDGE_STRENGTH = 600, 8, 0.1
_MIN_EXPLAINED, _MAX_CORRELATION, _MIN_EQUAL = 0.3, -0.7, 0.95


@dataclass(frozen=True)
class UnmovedTarget:
    """A value of the target that two reads of a sample share, although the image of one is the mirror image.

    A learner of the validation images explains the share ``explained`` of its variance on images that were left out.
    Its predictions for the images of ``samples`` pairs of reads have the ``correlation`` with those for their mirror
    images: a position changes its sign, a size does not.
    """

    position: int
    mirror: str
    samples: int
    explained: float
    correlation: float
    line: SourceLine | None


@slow_measurement
def unmoved_target(setup: Setup, tables: dict[str, SplitTable]) -> UnmovedTarget | None:
    """A value of the training targets that should change with mirrored images, and does not; None if there is none."""
    return search_mirrored(setup, tables, _as_rows, partial(_find_unmoved, setup))


def _as_rows(inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> tuple[Tensor, Tensor] | None:
    """Return images and a few real values for each; None for other samples."""
    if len(inputs) != 1 or len(targets) != 1 or not targets[0].is_floating_point():
        return None
    images, values = inputs[0], targets[0].flatten(1) if targets[0].dim() > 1 else targets[0][:, None]
    is_image = images.dim() in (3, 4) and (images.is_floating_point() or images.dtype == torch.uint8)
    if not is_image or min(images.shape[-2:]) < _MIN_SIDE or values.shape[1] > _MAX_TARGETS:
        return None
    images = images[:_MAX_ROWS].double()
    return (images[:, None] if images.dim() == 3 else images[:, :_MAX_CHANNELS]), values[:_MAX_ROWS].double()


def _find_unmoved(setup: Setup, pairs: list[MirroredReads], images: Tensor, targets: Tensor) -> UnmovedTarget | None:
    """Return the value of the target whose predictions change their sign with the image, if it stays the same."""
    scores, weights = _fit(_features(images), targets)
    offset = _features(images).mean(0)
    for mirror in MIRRORS:
        own = [pair for pair in pairs if pair.mirror == mirror]
        equal_targets = sum(torch.equal(*pair.targets) for pair in own)
        if len(own) < MIN_PAIRS or equal_targets < _MIN_EQUAL * len(own):
            continue
        first, second = (
            (_features(torch.cat(part)) - offset) @ weights for part in zip(*(p.images for p in own), strict=True)
        )
        for position in torch.argsort(scores, descending=True).tolist():
            if scores[position] < _MIN_EXPLAINED:
                break
            correlation = float(torch.corrcoef(torch.stack([first[:, position], second[:, position]]))[0, 1])
            if correlation < _MAX_CORRELATION:
                line = find_mirroring_line(setup, _as_rows, own[0])
                return UnmovedTarget(position, mirror, len(own), float(scores[position]), correlation, line)
    return None


def _features(images: Tensor) -> Tensor:
    """Return the means of the cells of a grid."""
    height, width = images.shape[-2:]
    return F.adaptive_avg_pool2d(images, (min(height, _GRID), min(width, _GRID))).flatten(1)


def _fit(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the explained variance of each value on rows that were left out, and the weights of a ridge regression."""
    errors = torch.empty_like(targets)
    halves = torch.arange(len(features)) % 2 == 0
    for own in (halves, ~halves):
        weights = _solve(features[~own], targets[~own])
        errors[own] = (features[own] - features[~own].mean(0)) @ weights - (targets[own] - targets[~own].mean(0))
    variance = targets.var(0, correction=0)
    scores = 1 - errors.square().mean(0) / variance.clamp(min=1e-12)
    distinct = torch.tensor([len(column.unique()) for column in targets.T])
    return scores.where((distinct >= _MIN_DISTINCT) & (variance > 0), torch.zeros(())), _solve(features, targets)


def _solve(features: Tensor, targets: Tensor) -> Tensor:
    x, y = features - features.mean(0), targets - targets.mean(0)
    gram = x.T @ x / len(x)
    ridge = _RIDGE_STRENGTH * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    solution: Tensor = torch.linalg.solve(gram + ridge, x.T @ y / len(x))
    return solution
