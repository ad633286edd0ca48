"""Samples that change when they or other samples are read, because reading writes to stored data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.held_values import (
    emptied_again,
    has_caches,
    held_containers,
    held_values,
    restored_containers,
)
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, GeneratorSnapshot
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.user_code import MAX_DATASET_DEPTH, dataset_components
from nbdebug.source.changing_lines import find_changing_line
from nbdebug.source.location import SourceLine
from nbdebug.tensors.hashing import hash_tensor
from nbdebug.tensors.pytree import tree_leaves

_SAMPLES, _MIN_SAMPLES = 3, 2
_MAX_COPIED_VALUES = 25_000_000
_MAX_COPIED_TENSORS = 5000
_MAX_COMPARED_VALUES, _MAX_SUSPECTS = 10_000, 8  # of the tensors that change
_ROUNDING = 1e-3  # relative difference
_Read = Callable[[int], list[Tensor]]


@dataclass(frozen=True)
class RewrittenSamples:
    """Samples of a split that differ between two reads, and are the first ones again after the data are restored.

    ``means`` and ``deviations`` are those of the tensor that changes, in two reads of the first of the samples.
    ``line`` is the user's line that changes the stored data.
    """

    split: str
    line: SourceLine | None
    samples: int
    means: tuple[float, float]
    deviations: tuple[float, float]


@slow_measurement
def rewritten_samples(setup: Setup) -> list[RewrittenSamples]:
    """Splits whose samples change when they are read again, with the same random numbers, as stored data change.

    Three samples are read twice, with generators of the dataset in the same state. Then the tensors and arrays that the
    dataset stores are set back: the third read must be equal to the first. So neither a random number nor a counter
    explains the change.
    """
    splits = {"train": setup.train_loader, "val": setup.val_loader}
    return [
        rewritten
        for split, loader in splits.items()
        if is_map_style(loader) and not isinstance(loader.dataset, TensorDataset)
        if (rewritten := _compare_reads(split, loader.dataset)) is not None
    ]


@dataclass(frozen=True)
class OverwrittenSample:
    """A training sample whose values became those of another sample, read after it, and the rows of a batch."""

    index: int
    other_index: int
    batch_size: int


@slow_measurement
def overwritten_sample(setup: Setup) -> OverwrittenSample | None:
    """The first training sample, if reading the next one replaces its values by those of the next one.

    Both are then views of one buffer, so all samples of a batch are its last one.
    """
    loader = setup.train_loader
    size = getattr(loader, "batch_size", None) or 1
    if not is_map_style(loader) or isinstance(loader.dataset, TensorDataset) or size < _MIN_SAMPLES:
        return None
    try:
        with Preserve(loader.dataset):
            first = _tensors(loader.dataset[0])
            copies = [tensor.clone() for tensor in first]
            second = _tensors(loader.dataset[1])
    except Exception:
        return None
    pairs = zip(first, copies, second, strict=False)
    is_overwritten = any(
        not torch.equal(now, before) and now.shape == other.shape and torch.equal(now, other)
        for now, before, other in pairs
    )
    return OverwrittenSample(0, 1, size) if is_overwritten else None


def _compare_reads(split: str, dataset: Any) -> RewrittenSamples | None:
    """Compare three reads of some samples of a dataset, which is restored."""
    try:
        indices = sorted({0, len(dataset) // 2, len(dataset) - 1})
        components = [*dataset_components(dataset, MAX_DATASET_DEPTH)]
        containers = [*held_containers(components).values()]
        is_empty = not containers and next(_stored_values(components), None) is None
        if len(indices) < _SAMPLES or (is_empty and not has_caches(components)):
            return None
        with (
            Preserve(dataset),
            torch.no_grad(),
            restored_containers(containers),
            emptied_again(components),
            _repeatable_reads(dataset, components) as read,
        ):
            with _restored_values(components):
                read(indices[0])  # fills the caches, whose values are stored from then on
                if next(_stored_values(components), None) is None:
                    return None
                for index in indices[1:]:
                    read(index)
            with _restored_values(components) as (stored, copies):
                results = [_read_three_times(read, index, stored, copies) for index in indices]
                changes_all = None not in results
                line = _find_line(read, indices[0], stored, copies) if changes_all else None
    except Exception:
        return None
    if not changes_all or results[0] is None:
        return None
    first, second = results[0]
    means, deviations = (float(first.mean()), float(second.mean())), (float(first.std()), float(second.std()))
    return RewrittenSamples(split, line, len(indices), means, deviations)


@contextmanager
def _repeatable_reads(dataset: Any, components: Sequence[Any]) -> Iterator[_Read]:
    """Yield a function that reads a sample with the same random numbers each time; restore the dataset's generators."""
    generators = [GeneratorSnapshot(value) for value in held_values(components) if isinstance(value, GENERATOR_TYPES)]

    def read(index: int) -> list[Tensor]:
        """Return copies of the tensors of a sample."""
        for generator in generators:
            generator.restore()
        seed_all(0)
        return [tensor.clone() for tensor in _tensors(dataset[index])]

    try:
        yield read
    finally:
        for generator in generators:
            generator.restore()


@contextmanager
def _restored_values(components: Sequence[Any]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Yield the values that the components of a dataset store, and copies that are written back after the block."""
    stored = [*_stored_values(components)]
    if len(stored) > _MAX_COPIED_TENSORS or sum(values.numel() for values in stored) > _MAX_COPIED_VALUES:
        raise NotChecked("the dataset stores more data than can be copied")
    copies = [values.clone() for values in stored]
    try:
        yield stored, copies
    finally:
        _restore(stored, copies)


def _stored_values(components: Sequence[Any]) -> Iterator[Tensor]:
    """Yield the tensors and arrays of numbers that the components of a dataset hold, each one once, as tensors."""
    attributes = [getattr(component, "__dict__", {}) for component in components]
    leaves = [leaf for names in attributes for _, leaf in tree_leaves(dict(names))]
    for value in held_values(components):  # those of classes and modules are not followed further
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        leaves += islice(parts, _MAX_COPIED_TENSORS)
    for leaf in {id(leaf): leaf for leaf in leaves}.values():
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiu" and leaf.flags.writeable:
            yield torch.from_numpy(leaf)
        elif isinstance(leaf, Tensor):
            yield leaf.detach()


def _read_three_times(
    read: _Read, index: int, stored: list[Tensor], copies: list[Tensor]
) -> tuple[Tensor, Tensor] | None:
    """Return the first tensor of a sample that differs between two reads, if a read after a reset is the first one."""
    first, second = read(index), read(index)
    if len(first) != len(second) or (pair := _first_difference(first, second)) is None:
        return None
    _restore(stored, copies)
    third = read(index)
    return pair if _are_equal(first, third) else None


def _find_line(read: _Read, index: int, stored: list[Tensor], copies: list[Tensor]) -> SourceLine | None:
    """Return the line that changes the stored data in the second read of a sample, else that in the first one.

    A line that changes nothing in the second read, such as one that replaces missing values, explains no difference
    between the reads.
    """
    try:
        places = [_changed_values(*pair) for pair in _changed_pairs(read, index, stored, copies)]
        _restore(stored, copies)

        def fingerprint() -> tuple[int, ...]:
            return tuple(hash_tensor(values.take(positions)) for values, positions in places)

        first, second = (find_changing_line(lambda: read(index), fingerprint) for _ in range(2))
    except Exception:  # the finding stays true without its line
        return None
    return second or first


def _changed_pairs(read: _Read, index: int, stored: list[Tensor], copies: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return the stored tensors that a read changes, with their copies.

    If it changes several, such as a counter of the reads, return only one that makes the next read equal to the first
    as soon as it alone is set back.
    """
    _restore(stored, copies)
    first = read(index)
    changed = [pair for pair in zip(stored, copies, strict=True) if not torch.equal(*pair)]
    for values, copy in changed[:_MAX_SUSPECTS] if len(changed) > 1 else ():
        _restore(stored, copies)
        read(index)
        _restore([values], [copy])
        if _are_equal(first, read(index)):
            changed = [(values, copy)]
            break
    _restore(stored, copies)
    read(index)
    return changed


def _changed_values(values: Tensor, copy: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor, and the positions of values that differ from its copy, in the order of its memory."""
    positions = (values != copy).flatten().nonzero().flatten()
    return values, positions[:: len(positions) // _MAX_COMPARED_VALUES + 1]


def _restore(stored: Sequence[Tensor], copies: Sequence[Tensor]) -> None:
    for values, copy in zip(stored, copies, strict=True):
        if not torch.equal(values, copy):  # a write would end the graphs that have saved these tensors
            values.copy_(copy)


def _are_equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


def _first_difference(first: list[Tensor], second: list[Tensor]) -> tuple[Tensor, Tensor] | None:
    pairs = zip(first, second, strict=True)
    return next((pair for pair in pairs if pair[0].shape == pair[1].shape and _differ(*pair)), None)


def _tensors(sample: Any) -> list[Tensor]:
    """Return the tensors and arrays of a sample as tensors that share their memory."""
    leaves = (leaf for _, leaf in tree_leaves(sample))
    tensors = (torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves)
    return [tensor for tensor in tensors if isinstance(tensor, Tensor)]


def _differ(first: Tensor, second: Tensor) -> bool:
    if first.numel() < 2 or not first.is_floating_point():
        return False
    return float((first - second).abs().max()) > _ROUNDING * float(first.abs().max())
