"""Pairs of reads of a training sample of which one image is the mirror image of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from nbdebug.measurements.collation import collates_by_user
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style, reads_tensor_dataset
from nbdebug.setup.sample_functions import collating_object
from nbdebug.source.executed_lines import find_differing_line
from nbdebug.source.location import SourceLine

MIN_PAIRS = 20  # from which a target is judged
MIRRORS = {"left to right": (-1,), "upside down": (-2,), "by half a turn": (-2, -1)}
_MIN_ROWS = 60
_SAMPLES, _READS, _FIRST_SAMPLES, _SECONDS = 64, 4, 6, 0.4
_CLEAR_RATIO = 0.25  # the error of a mirror image over that of the unchanged image
ImagesAndTargets = tuple[Tensor, Tensor]
Result = TypeVar("Result")
Selection = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], ImagesAndTargets | None]


@dataclass(frozen=True)
class MirroredReads:
    """An image and its mirror image, each with its target, from two reads of a sample with other random numbers."""

    mirror: str
    images: tuple[Tensor, Tensor]
    targets: tuple[Tensor, Tensor]
    index: int
    seeds: tuple[int, int]


def search_mirrored(
    setup: Setup,
    tables: dict[str, SplitTable],
    select: Selection,
    search: Callable[[list[MirroredReads], Tensor, Tensor], Result | None],
) -> Result | None:
    """Return what a search returns for mirrored reads of training samples, and the images and targets of validation.

    ``select`` returns images and targets from the tensors of samples; None for others. Returns None without enough
    validation samples, and for training samples that no code of the user's reads one by one.
    """
    loader, val = setup.train_loader, tables.get("val")
    rows = select(val.inputs, val.targets) if val is not None else None
    is_read = is_map_style(loader) and (not reads_tensor_dataset(loader) or collates_by_user(loader))
    if not is_read or rows is None or len(rows[0]) < _MIN_ROWS:
        return None
    try:
        with Preserve(loader.dataset, loaders=[collating_object(loader)]), torch.no_grad():
            return search([*_read_mirrored(setup, select)], *rows)
    except Exception:  # samples that cannot be read are reported elsewhere
        return None


def find_mirroring_line(setup: Setup, select: Selection, reads: MirroredReads) -> SourceLine | None:
    """Return the first line that only the read of the mirrored image executes."""
    return find_differing_line(*(partial(_read, setup, select, reads.index, seed) for seed in reads.seeds))


def _read_mirrored(setup: Setup, select: Selection) -> Iterator[MirroredReads]:
    """Yield two reads of each of some training samples of which one image mirrors the other."""
    indices, limit = get_visited_indices(setup.train_loader), ReadingLimit(_SECONDS, MIN_PAIRS)
    indices = indices[:: max(len(indices) // _SAMPLES, 1)][:_SAMPLES]
    has_changed = False
    for number, index in enumerate(indices):
        first = _read(setup, select, index, 0)
        for seed in range(1, _READS):
            other = _read(setup, select, index, seed)
            if first is None or other is None or other[0].shape != first[0].shape:
                return
            has_changed = has_changed or not torch.equal(first[0], other[0])
            if mirror := _find_mirror(first[0], other[0]):
                yield MirroredReads(mirror, (first[0], other[0]), (first[1], other[1]), index, (0, seed))
                break
        if limit.ends_after(number + 1) or (number + 1 == _FIRST_SAMPLES and not has_changed):
            return


def _read(setup: Setup, select: Selection, index: int, seed: int) -> ImagesAndTargets | None:
    """Read a sample and collate it alone."""
    loader: Any = setup.train_loader
    seed_all(seed)
    batch = setup.split_batch(loader.collate_fn([loader.dataset[index]]), None)
    inputs, targets = (
        tuple(part.cpu() for part in values if isinstance(part, Tensor)) for values in (batch.args, batch.targets)
    )
    return select(inputs, targets)


def _find_mirror(first: Tensor, other: Tensor) -> str | None:
    """Return how an image is mirrored in another read, if this is clear."""
    errors = {name: float((first.flip(axes) - other).square().mean()) for name, axes in MIRRORS.items()}
    name = min(errors, key=lambda candidate: errors[candidate])
    others = [error for candidate, error in errors.items() if candidate != name]
    unchanged = float((first - other).square().mean())
    return name if errors[name] < _CLEAR_RATIO * min(unchanged, *others) else None
