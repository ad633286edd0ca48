"""Whether the transforms that a dataset draws for an image are those of its target, such as a mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nbdebug.measurements.paired_shifts import Shift, are_equal_reads, are_views, count_different, find_shifts
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.transform_lines import find_transform_line, moves
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line, pairing_line
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.setup.losses import get_loss_kind
from nbdebug.setup.sample_functions import collate_method, collating_object
from nbdebug.source.location import SourceLine, get_definition_line

_SAMPLES, _READS, _TRACED_READS = 8, 6, 12
_MIN_SIDE, _MAX_VALUES = 4, 1_000_000
_CLEAR_RATIO = 0.5  # the error of the best transform over that of the next; noise that is drawn again stays above it


@dataclass(frozen=True)
class UnpairedTransforms:
    """Pairs of reads of one sample between which input and target are transformed differently.

    ``compared`` counts the pairs of reads whose transforms are known, ``different`` those in which the two differ.
    ``line`` transforms one of both alone. If that is unknown, it makes the target in the function that pairs it with
    the input, or the input if only this one changes, or defines how the dataset reads a sample.
    """

    kind: Literal["flipped or rotated", "shifted or cropped"]
    compared: int
    different: int
    samples: int
    line: SourceLine | None


@slow_measurement
def unpaired_transforms(setup: Setup) -> UnpairedTransforms | None:
    """Reads of training samples whose input and target are transformed differently; None if there are none.

    Each of some samples is read several times. If its target takes the values of another read after exactly one of the
    flips and rotations, and one of them brings its input much closer to that of the other read than the next best,
    these two must be the same; or the target must be in other, constant coordinates. Shifts are compared likewise.
    """
    loader = setup.train_loader
    if not is_map_style(loader) or len(loader.dataset) < _SAMPLES:
        return None
    transforms: list[tuple[int, int]] = []
    shifts: list[tuple[Shift, Shift]] = []
    samples, shifted_samples, is_square, line = 0, 0, True, None
    may_be_views = get_loss_kind(setup.loss_fn) == "other"
    try:
        indices = get_visited_indices(loader)
        with Preserve(loader.dataset, loaders=[collating_object(loader)]), torch.no_grad():
            for index in indices[:: max(len(indices) // _SAMPLES, 1)][:_SAMPLES]:
                read = partial(_read, loader, index)
                pairs = [_as_pair(read(number)) for number in range(_READS)]
                known = [pair for pair in pairs if pair is not None]
                if len(known) < len(pairs):
                    return None
                is_square = is_square and known[0][0].shape[-1] == known[0][0].shape[-2]
                of_sample = list(_find_transforms(known))
                samples += bool(of_sample)
                transforms += of_sample
                has_no_shifts = are_equal_reads(known) or (may_be_views and are_views(known[0]))
                moved = [] if has_no_shifts else [*find_shifts(known)]
                shifted_samples += bool(moved)
                shifts += moved
                if line is None and any(of_image != of_target for of_image, of_target in of_sample):
                    line = find_transform_line(read, _as_pair, _TRACED_READS)
    except Exception:  # samples that cannot be read are reported elsewhere
        return None
    if unpaired := _unpaired_shifts(setup, shifts, shifted_samples):  # a shifted image may resemble its mirror image
        return unpaired
    grid = torch.arange(9).view(3, 3) if is_square else torch.arange(6).view(2, 3)
    if any(_agree_in_coordinates(transforms, grid, number) for number, _ in enumerate(moves(grid))):
        return None
    different = sum(of_image != of_target for of_image, of_target in transforms)
    line = line or pairing_line(setup) or get_definition_line(type(loader.dataset).__getitem__)
    return UnpairedTransforms("flipped or rotated", len(transforms), different, samples, line)


def _unpaired_shifts(setup: Setup, shifts: list[tuple[Shift, Shift]], samples: int) -> UnpairedTransforms | None:
    """Return the reads whose input and target are shifted differently; None if there are none."""
    different = count_different(shifts)
    if not different:
        return None
    is_of_image = all(of_target == (0, 0) for _, of_target in shifts)
    line = origin_line(setup, "inputs") if is_of_image else pairing_line(setup)
    line = line or get_definition_line(type(setup.train_loader.dataset).__getitem__)
    return UnpairedTransforms("shifted or cropped", len(shifts), different, samples, line)


def _read(loader: Any, index: int, seed: int) -> Any:
    """Read a sample, through the user's collate function if there is one: this may transform it."""
    seed_all(seed)
    sample = loader.dataset[index]
    return loader.collate_fn([sample]) if collate_method(loader) else sample


def _as_pair(sample: Any) -> tuple[Tensor, Tensor] | None:
    """Return an image and a target of the same height and width; None for other samples."""
    if not isinstance(sample, (tuple, list)) or len(sample) != 2:
        return None
    parts = [torch.as_tensor(part) if isinstance(part, (Tensor, np.ndarray)) else None for part in sample]
    image, target = parts
    if image is None or target is None or image.dim() < 2 or target.dim() < 2 or image.numel() > _MAX_VALUES:
        return None
    is_image = image.shape[-2:] == target.shape[-2:] and min(image.shape[-2:]) >= _MIN_SIDE
    return (image.double(), target.double()) if is_image else None


def _find_transforms(pairs: list[tuple[Tensor, Tensor]]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the transforms of image and target for each two reads between which they are known."""
    for (first_image, first_target), (image, target) in combinations(pairs, 2):
        if first_image.shape != image.shape or first_target.shape != target.shape:
            continue
        of_target = [number for number, moved in enumerate(moves(first_target)) if _equals(moved, target)]
        errors = torch.tensor([_distance(moved, image) for moved in moves(first_image)])
        best, next_best = errors.sort().values[:2].tolist()
        if len(of_target) == 1 and best < _CLEAR_RATIO * next_best:
            yield int(errors.argmin()), of_target[0]


def _agree_in_coordinates(transforms: list[tuple[int, int]], grid: Tensor, coordinates: int) -> bool:
    """Check whether each image is transformed like its target, which another transform brings into its coordinates."""
    to_target = list(moves(grid))[coordinates]
    return all(
        torch.equal(list(moves(to_target))[of_target], list(moves(list(moves(grid))[of_image]))[coordinates])
        for of_image, of_target in set(transforms)
    )


def _equals(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)


def _distance(first: Tensor, second: Tensor) -> float:
    return float((first - second).square().mean()) if first.shape == second.shape else float("inf")
