"""Positions in targets that stay where they were while their images are mirrored at random."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nbdebug.measurements.collation import collates_by_user
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style, reads_tensor_dataset
from nbdebug.setup.sample_functions import collating_object
from nbdebug.source.executed_lines import find_differing_line
from nbdebug.source.location import SourceLine

_SAMPLES, _MIN_SAMPLES, _READS, _FIRST_SAMPLES, _SECONDS = 64, 20, 4, 6, 0.4
_MIN_SIDE, _MAX_TARGETS, _MAX_CHANNELS, _MIN_DISTINCT = 4, 32, 3, 10
_MIN_ROWS, _MAX_ROWS, _GRID, _RIDGE_STRENGTH = 60, 600, 8, 0.1
_MIN_EXPLAINED, _MAX_CORRELATION, _MIN_EQUAL = 0.3, -0.7, 0.95
_CLEAR_RATIO = 0.25  # the error of a mirror image over that of the unchanged image
_MIRRORS = {"left to right": (-1,), "upside down": (-2,), "by half a turn": (-2, -1)}


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


@dataclass(frozen=True)
class _Pair:
    """An image, its mirror image, and whether their targets are equal; the random numbers of the two reads."""

    mirror: str
    images: tuple[Tensor, Tensor]
    has_equal_targets: bool
    index: int
    seeds: tuple[int, int]


@slow_measurement
def unmoved_target(setup: Setup, tables: dict[str, SplitTable]) -> UnmovedTarget | None:
    """A value of the training targets that should change with mirrored images, and does not; None if there is none."""
    loader, val = setup.train_loader, tables.get("val")
    is_read = is_map_style(loader) and (not reads_tensor_dataset(loader) or collates_by_user(loader))
    known = _as_rows(val.inputs, val.targets) if val is not None else None
    if not is_read or known is None or len(known[0]) < _MIN_ROWS:
        return None
    try:
        with Preserve(loader.dataset, loaders=[collating_object(loader)]), torch.no_grad():
            pairs = [*_mirrored_pairs(setup)]
            return _find_unmoved(setup, pairs, *known)
    except Exception:  # samples that cannot be read are reported elsewhere
        return None


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


def _read(setup: Setup, index: int, seed: int) -> tuple[Tensor, Tensor] | None:
    """Read a sample and collate it alone."""
    loader: Any = setup.train_loader
    seed_all(seed)
    batch = setup.split_batch(loader.collate_fn([loader.dataset[index]]), None)
    tensors = tuple(part.cpu() for part in batch.args if isinstance(part, Tensor))
    return _as_rows(tensors, tuple(part.cpu() for part in batch.targets if isinstance(part, Tensor)))


def _mirrored_pairs(setup: Setup) -> Iterator[_Pair]:
    """Yield two reads of each of some samples of which one image is the mirror image of the other."""
    indices, limit = get_visited_indices(setup.train_loader), ReadingLimit(_SECONDS, _MIN_SAMPLES)
    indices = indices[:: max(len(indices) // _SAMPLES, 1)][:_SAMPLES]
    has_changed = False
    for number, index in enumerate(indices):
        first = _read(setup, index, 0)
        for seed in range(1, _READS) if first is not None else ():
            other = _read(setup, index, seed)
            if first is None or other is None or other[0].shape != first[0].shape:
                return
            has_changed = has_changed or not torch.equal(first[0], other[0])
            if mirror := find_mirror(first[0], other[0]):
                yield _Pair(mirror, (first[0], other[0]), torch.equal(first[1], other[1]), index, (0, seed))
                break
        if limit.ends_after(number + 1) or (number + 1 == _FIRST_SAMPLES and not has_changed):
            return


def find_mirror(first: Tensor, other: Tensor) -> str | None:
    """Return how an image is mirrored in another read, if this is clear."""
    errors = {name: float((first.flip(axes) - other).square().mean()) for name, axes in _MIRRORS.items()}
    name = min(errors, key=lambda candidate: errors[candidate])
    others = [error for candidate, error in errors.items() if candidate != name]
    unchanged = float((first - other).square().mean())
    return name if errors[name] < _CLEAR_RATIO * min(unchanged, *others) else None


def _find_unmoved(setup: Setup, pairs: list[_Pair], images: Tensor, targets: Tensor) -> UnmovedTarget | None:
    """Return the value of the target whose predictions change their sign with the image, if it stays the same."""
    scores, weights = _fit(_features(images), targets)
    offset = _features(images).mean(0)
    for mirror in _MIRRORS:
        own = [pair for pair in pairs if pair.mirror == mirror]
        if len(own) < _MIN_SAMPLES or sum(pair.has_equal_targets for pair in own) < _MIN_EQUAL * len(own):
            continue
        first, second = (
            (_features(torch.cat(part)) - offset) @ weights for part in zip(*(p.images for p in own), strict=True)
        )
        for position in torch.argsort(scores, descending=True).tolist():
            if scores[position] < _MIN_EXPLAINED:
                break
            correlation = float(torch.corrcoef(torch.stack([first[:, position], second[:, position]]))[0, 1])
            if correlation < _MAX_CORRELATION:
                line = _find_line(setup, own[0])
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


def _find_line(setup: Setup, pair: _Pair) -> SourceLine | None:
    """Return the first line that only the read of the mirrored image executes."""
    reads = [partial(_read, setup, pair.index, seed) for seed in pair.seeds]
    return find_differing_line(*reads)
