"""Samples that a dataset keeps after their random augmentation, so that each has the same one in every epoch."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from nbdebug.measurements.fresh_generators import fingerprint
from nbdebug.measurements.held_values import held_containers, held_values, restored_containers
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.sample_variants import MIN_RELATED_SAMPLES, ReadSample, are_related, are_variants, as_sample
from nbdebug.measurements.stand_in_stores import RowStore, cached_functions, copied_stores, empty_caches, row_stores
from nbdebug.preserve import Preserve, seed_all
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, GeneratorSnapshot, global_generators
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.setup.time_limit import sample_time_limit
from nbdebug.setup.user_code import MAX_DATASET_DEPTH, dataset_components
from nbdebug.source.changing_lines import find_changing_line
from nbdebug.source.location import SourceLine, get_definition_line

_FIRST_SAMPLES, _MAX_SAMPLES = 2, 64
_READINGS, _SECONDS = 8, 0.05  # of a reading


@dataclass(frozen=True)
class FrozenAugmentation:
    """Samples that each read of a dataset returns alike, while a restart with other random numbers returns others.

    ``line`` is the user's line that keeps a sample. ``function`` names the cached function that keeps it, if any.
    """

    samples: int
    line: SourceLine | None
    function: str = ""


@slow_measurement
def frozen_augmentation(setup: Setup) -> FrozenAugmentation | None:
    """Training samples whose first random augmentation is kept for all later reads; None if there are none.

    A dataset is read several times from the state in which it is now, without what it may have kept of these samples,
    and with other random numbers. Each time, a second read of a sample draws nothing and returns the same values. The
    samples of an index must be closer to each other than to those of other indices with the same class: a dataset that
    generates its samples keeps them by design.
    """
    loader = setup.train_loader
    if not is_map_style(loader) or isinstance(loader.dataset, TensorDataset) or _forgets(loader):
        return None
    dataset: Any = loader.dataset
    try:
        components = [*dataset_components(dataset, MAX_DATASET_DEPTH)]
        indices = [*_spread(get_visited_indices(loader), _MAX_SAMPLES + 1)]
        warming_index, indices = indices[-1], indices[:-1]
        if len(indices) < MIN_RELATED_SAMPLES or not any(map(_stores_samples, components)):
            return None
    except Exception:
        return None
    readings = _Readings(dataset, components, warming_index)
    caches = cached_functions(components, len(get_visited_indices(loader)))
    ways: list[_Way] = [_ForgetEntries(readings.containers, dict), _ForgetEntries(readings.containers, list)]
    ways += [_ForgetResults(caches)] if caches else []
    ways += [_ForgetRows(readings.stores, [])] if readings.stores else []
    return next(filter(None, (_find_frozen(readings, indices, way) for way in ways)), None)


def _find_frozen(readings: _Readings, indices: Sequence[int], way: _Way) -> FrozenAugmentation | None:
    """Return the kept samples of a dataset that forgets its entries in one way; None without any."""
    try:
        if not way.prepare(readings, indices[0]) or readings.read(indices[:_FIRST_SAMPLES], 2, way) is None:
            return None
        read = readings.read(indices, _READINGS, way)
        if read is None or not are_related(read):
            return None
        return FrozenAugmentation(len(read[0]), way.find_line(readings, indices[0]), *_names(way.keepers))
    except Exception:  # samples that cannot be read are reported elsewhere; a list may hold the data
        return None


def _forgets(loader: Any) -> bool:
    """Return whether each epoch starts with new copies of the dataset, in new workers."""
    return loader.num_workers > 0 and not loader.persistent_workers


def _spread(indices: Sequence[int], count: int) -> Sequence[int]:
    return indices[:: max(len(indices) // count, 1)][:count]


def _stores_samples(component: Any, caches: Collection[str] = ()) -> bool:
    """Check whether a dataset holds a row, an image or a path for each of its samples: others generate them.

    Attributes that are ``caches`` do not count.
    """
    if not hasattr(component, "__len__") or not hasattr(component, "__dict__"):
        return False
    for value in (value for name, value in vars(component).items() if name not in caches):
        is_sized = isinstance(value, (list, tuple)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim > 1)
        if not is_sized or len(value) != len(component):
            continue
        first = value[0][0] if isinstance(value[0], tuple) else value[0]
        if isinstance(first, (str, os.PathLike)) or (isinstance(first, (Tensor, np.ndarray)) and first.ndim > 0):
            return True
    return False


class _Readings:
    """Reads a dataset several times from one state: what a read leaves in it is undone."""

    def __init__(self, dataset: Any, components: list[Any], warming_index: int) -> None:
        self.dataset, self.components, self.warming_index = dataset, components, warming_index
        self.containers = [*held_containers(components).values()]
        self.stores = row_stores(components, len(dataset))
        self.generators = [value for value in held_values(components) if isinstance(value, GENERATOR_TYPES)]

    def read(self, indices: Sequence[int], count: int, way: _Way) -> list[list[ReadSample]] | None:
        """Return the samples of several readings; None if a sample changes within a reading, or never does."""
        readings = list[list[ReadSample]]()
        for seed in range(1, count + 1):
            samples = self._read_kept(indices, seed, way)
            if samples is None:
                return None
            readings.append(samples)
            indices = indices[: len(samples)]
        readings = [samples[: len(indices)] for samples in readings]
        first, *others = readings
        return (
            readings if all(are_variants(pair) for other in others for pair in zip(first, other, strict=True)) else None
        )

    @contextmanager
    def reading(self, indices: Sequence[int], seed: int, way: _Way) -> Iterator[None]:
        """Forget what the dataset keeps of some samples, draw numbers of its own generators, and undo all later."""
        places = (*indices, self.warming_index)
        with ExitStack() as stack:
            stack.enter_context(Preserve(self.dataset))
            stack.enter_context(torch.no_grad())
            stack.enter_context(restored_containers(self.containers))
            stack.enter_context(copied_stores(self.stores, places))
            stack.enter_context(empty_caches(self.components, way.keepers))
            for generator in self.generators:
                stack.callback(GeneratorSnapshot(generator).restore)
            stack.enter_context(way.forget(places))
            seed_all(seed)
            if seed > 1:
                self._read(self.warming_index)
            yield

    def find_line(self, index: int, way: _Way, fingerprint: Callable[[], Hashable]) -> SourceLine | None:
        """Return the line that keeps a sample, after which a fingerprint is another one; else that of its reader."""
        with self.reading([index], 1, way):
            line = find_changing_line(lambda: self.dataset[index], fingerprint)
        return line or get_definition_line(type(self.dataset).__getitem__)

    def find_rewritten(self, index: int, way: _Way, stores: Sequence[RowStore]) -> list[RowStore]:
        """Return the stores in which a read sets the entry of a sample again."""
        with self.reading([index], 1, way):
            before = [store.entry(index) for store in stores]
            self._read(index)
            return [store for store, entry in zip(stores, before, strict=True) if store.entry(index) != entry]

    def _read_kept(self, indices: Sequence[int], seed: int, way: _Way) -> list[ReadSample] | None:
        """Return the samples of a reading that are equal in a second read, which draws nothing; None if one is not."""
        limit, samples = ReadingLimit(_SECONDS, MIN_RELATED_SAMPLES), list[ReadSample]()
        with self.reading(indices, seed, way):
            for index in indices:
                first = self._read(index)
                seed_all(seed + len(samples) + _READINGS)
                before = self._states() if len(samples) < _FIRST_SAMPLES else ()
                second = self._read(index)
                if first is None or second is None or first.classes != second.classes:
                    return None
                draws = len(samples) < _FIRST_SAMPLES and self._states() != before
                if draws or not torch.equal(first.values, second.values):
                    return None
                samples.append(first)
                if limit.ends_after(len(samples)):
                    break
        return samples

    def _read(self, index: int) -> ReadSample | None:
        with sample_time_limit():
            return as_sample(self.dataset[index])

    def _states(self) -> tuple[int, ...]:
        """Return the states of the global generators and of those of the dataset."""
        states = [GeneratorSnapshot(generator).state for generator in self.generators]
        states += [snapshot.original for _, snapshot in global_generators()]
        return tuple(fingerprint(tuple(state) if isinstance(state, list) else state) for state in states)


class _Way(Protocol):
    """A way in which a dataset forgets samples, and the cached functions that may keep them."""

    keepers: Sequence[Any]

    def prepare(self, readings: _Readings, index: int) -> bool:
        """Return whether the dataset may keep samples in this way."""

    def forget(self, indices: Sequence[int]) -> AbstractContextManager[None]:
        """Forget samples for a block."""

    def find_line(self, readings: _Readings, index: int) -> SourceLine | None:
        """Return the line that keeps a sample."""


@dataclass
class _ForgetEntries:
    """Removes entries of dictionaries, or replaces those of lists by None."""

    containers: list[Any]
    kind: type
    keepers: Sequence[Any] = ()

    def prepare(self, _: _Readings, __: int) -> bool:
        """Return whether there are such containers."""
        return any(isinstance(container, self.kind) for container in self.containers)

    @contextmanager
    def forget(self, indices: Sequence[int]) -> Iterator[None]:
        """Remove the entries, which the reading puts back."""
        for container in self.containers:
            for index in indices if isinstance(container, self.kind) else ():
                if isinstance(container, dict):
                    container.pop(index, None)
                elif len(container) > index:
                    container[index] = None
        yield

    def find_line(self, readings: _Readings, index: int) -> SourceLine | None:
        """Return the line after which a container has another length or entry."""

        def entries() -> tuple[object, ...]:
            return tuple((len(container), id(_entry(container, index))) for container in self.containers)

        return readings.find_line(index, self, entries)


@dataclass
class _ForgetResults:
    """Calls functions that keep no result yet."""

    keepers: Sequence[Any]

    def prepare(self, readings: _Readings, index: int) -> bool:
        """Select a function that keeps the samples although no other function keeps results."""
        for keeper in self.keepers:
            if readings.read([index], _FIRST_SAMPLES, _ForgetResults([keeper])) is not None:
                self.keepers = [keeper]
                return True
        return False

    def forget(self, _: Sequence[int]) -> AbstractContextManager[None]:
        """Forget nothing else: each reading starts with empty caches."""
        return nullcontext()

    def find_line(self, _: _Readings, __: int) -> SourceLine | None:
        """Return the line of the definition of the function."""
        return get_definition_line(self.keepers[0].__wrapped__)


@dataclass
class _ForgetRows:
    """Marks entries of tensors, arrays and sets as empty, if a read then sets them again."""

    stores: list[RowStore]
    empty: list[tuple[RowStore, object]]
    keepers: Sequence[Any] = ()

    def prepare(self, readings: _Readings, index: int) -> bool:
        """Find the stores with their empty entries; the dataset must hold samples besides what a read sets again."""
        self.empty = [pair for store in self.stores for pair in self._refilled(readings, store, index)]
        if not self.empty:
            return False
        names = [(id(store.owner), store.name) for store in readings.find_rewritten(index, self, self.stores)]
        return any(
            _stores_samples(component, [name for owner, name in names if owner == id(component)])
            for component in readings.components
        )

    def _refilled(self, readings: _Readings, store: RowStore, index: int) -> list[tuple[RowStore, object]]:
        for empty in store.empty_entries():
            with suppress(Exception):  # an entry of another kind, which the dataset needs
                if readings.find_rewritten(index, _ForgetRows([], [(store, empty)]), [store]):
                    return [(store, empty)]
        return []

    @contextmanager
    def forget(self, indices: Sequence[int]) -> Iterator[None]:
        """Mark the entries of copies of the stores."""
        for store, empty in self.empty:
            for index in indices:
                store.forget(index, empty)
        yield

    def find_line(self, readings: _Readings, index: int) -> SourceLine | None:
        """Return the line after which a store has another entry."""
        return readings.find_line(index, self, lambda: tuple(store.entry(index) for store in self.stores))


def _names(functions: Sequence[Any]) -> list[str]:
    return [function.__name__ for function in functions]


def _entry(container: Any, index: int) -> object:
    """Return what a dictionary or a list holds for an index, if anything."""
    if isinstance(container, dict):
        return container.get(index)
    return container[index] if 0 <= index < len(container) else None
