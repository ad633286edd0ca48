"""Random generators that repeat their numbers for each sample or each worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

from nbdebug.measurements.collation import collates_by_user
from nbdebug.measurements.fresh_generators import (
    FreshGenerator,
    find_fresh_generators,
    find_indexed_generators,
    find_seeding_line,
    fingerprint,
)
from nbdebug.measurements.indexed_augmentation import has_indexed_augmentation, may_depend_on_epoch
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.repeated_streams import GENERATOR_FUNCTIONS, find_repeated_stream
from nbdebug.preserve import Preserve
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, GeneratorSnapshot
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.setup.time_limit import UserCodeTimeout
from nbdebug.setup.user_code import MAX_DATASET_DEPTH, dataset_components
from nbdebug.tensors.pytree import tree_tensors

_WORKERS, _READS_PER_WORKER, _TIMEOUT_SECONDS = 2, 2, 5.0


@dataclass(frozen=True)
class RepeatedSeeds:
    """Generators that repeat their numbers: for each sample, for each worker as copies, and by ``worker_init_fn``.

    ``seeded_per_sample`` are global generators; ``started_per_sample`` are others that start again with the same
    seed, and ``seeded_per_epoch`` those that a stream creates or seeds when it is iterated.
    """

    seeded_per_sample: tuple[FreshGenerator, ...] = ()
    copied_to_workers: tuple[str, ...] = ()
    seeded_per_worker: tuple[str, ...] = ()
    started_per_sample: tuple[FreshGenerator, ...] = ()
    seeded_by_index: tuple[FreshGenerator, ...] = ()
    seeded_per_epoch: tuple[FreshGenerator, ...] = ()


@slow_measurement
def repeated_seeds(setup: Setup) -> RepeatedSeeds:
    """Generators that reading a sample reseeds, and generators that start in the same state in two real workers.

    Workers are started only if the loader has some and forks them, and a generator can repeat: one that the dataset
    stores, or a global one after a ``worker_init_fn``.
    """
    loader = setup.train_loader
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        return RepeatedSeeds(seeded_per_epoch=_find_seeded_per_epoch(loader))
    if not is_map_style(loader) or not hasattr(loader.dataset, "__len__") or isinstance(loader.dataset, TensorDataset):
        return RepeatedSeeds()
    try:
        with Preserve(loader.dataset):
            seeded_per_sample = _find_seeded_per_sample(loader.dataset)
            started_per_sample = () if seeded_per_sample else _find_started_per_sample(loader)
            seeded_by_index = () if seeded_per_sample else _find_seeded_by_index(loader)
            repeated = () if seeded_per_sample else _get_repeated_in_workers(loader)
    except Exception:
        return RepeatedSeeds()
    return RepeatedSeeds(
        seeded_per_sample,
        tuple(name for name in repeated if name not in GENERATOR_FUNCTIONS),
        tuple(name for name in repeated if name in GENERATOR_FUNCTIONS),
        started_per_sample,
        seeded_by_index,
    )


def _find_seeded_per_epoch(loader: Any) -> tuple[FreshGenerator, ...]:
    """Return the generators that give a stream the same augmentation in each epoch; empty if it cannot be read."""
    try:
        with Preserve(loader.dataset):
            return find_repeated_stream(loader)
    except (Exception, UserCodeTimeout):
        return ()


def _find_seeded_per_sample(dataset: Any) -> tuple[FreshGenerator, ...]:
    """Return the global generators that reading a sample seeds, each with the line that does."""
    return tuple(
        FreshGenerator(name, find_seeding_line(lambda: dataset[0], *functions))
        for name, functions in GENERATOR_FUNCTIONS.items()
        if _is_seeded(dataset, *functions)
    )


def _find_started_per_sample(loader: DataLoader[Any]) -> tuple[FreshGenerator, ...]:
    """Return the generators that start again when each of three samples is read and collated."""
    dataset: Any = loader.dataset
    indices = sorted({0, len(dataset) // 2, len(dataset) - 1})
    if len(indices) < 3:
        return ()
    if collates_by_user(loader):
        with suppress(Exception):  # a collate function may need more than two samples
            return tuple(find_fresh_generators(lambda index: loader.collate_fn([dataset[index]] * 2), indices))
    return tuple(find_fresh_generators(dataset.__getitem__, indices))


def _find_seeded_by_index(loader: DataLoader[Any]) -> tuple[FreshGenerator, ...]:
    """Return the generators with a seed for each sample, of a dataset that stores what they transform.

    It stores images, rows of the size of its samples, or what other seeds change by a part only. Any other dataset
    generates its samples, each by its own seed. Seeds that depend on the epoch too do not repeat.
    """
    dataset: Any = loader.dataset
    last = len(dataset) - 1
    seeded = tuple(
        FreshGenerator(name, find_seeding_line(lambda: dataset[0], *functions))
        for name, functions in GENERATOR_FUNCTIONS.items()
        if last and _is_seeded(dataset, *functions, index=0) and _is_seeded(dataset, *functions, index=last)
    )
    generators = tuple(find_indexed_generators(dataset.__getitem__, 0, last))
    components = [*dataset_components(dataset, MAX_DATASET_DEPTH)]
    if not (seeded or generators) or may_depend_on_epoch(dataset, components):
        return ()
    if not seeded and _stores_rows_of_samples(dataset):
        return generators
    indices = [*get_visited_indices(loader)]
    return (*seeded, *generators) if has_indexed_augmentation(dataset, components, indices) else ()


def _stores_rows_of_samples(dataset: Any) -> bool:
    """Return whether a dataset stores images, or rows of the size of its samples."""
    rows = list(_stored_rows(dataset))
    sizes = {math.prod(row.shape) for row in rows}
    holds_images = any(row.ndim > 1 for row in rows)  # which may be padded or cropped
    return any(tensor.dim() and (holds_images or tensor.numel() in sizes) for tensor in tree_tensors(dataset[0]))


def _stored_rows(dataset: Any) -> Iterator[Tensor | np.ndarray[Any, Any]]:
    """Yield the first row of each array, or list of arrays, that has one for each sample."""
    for value in getattr(dataset, "__dict__", {}).values():
        is_sized = isinstance(value, (list, tuple)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim > 1)
        if is_sized and len(value) == len(dataset) and isinstance(value[0], (Tensor, np.ndarray)):
            yield value[0]


def _is_seeded(
    dataset: Any, seed: Callable[[int], Any], get_state: Callable[[], Any], index: int | None = None
) -> bool:
    """Return whether reading any sample, or that of one index, leaves a generator in the same state."""
    fingerprints: list[int] = []
    indices = (0, 0, len(dataset) - 1) if index is None else (index, index)
    for number, index in enumerate(indices, 1):
        seed(number)
        before = fingerprint(get_state())
        dataset[index]
        fingerprints.append(fingerprint(get_state()))
        if fingerprints[-1] == before:
            return False
    return len(set(fingerprints)) == 1


def _get_stored_generators(dataset: Any) -> dict[str, Any]:
    attributes = getattr(dataset, "__dict__", {})
    return {name: generator for name, generator in attributes.items() if isinstance(generator, GENERATOR_TYPES)}


def _get_repeated_in_workers(loader: DataLoader[Any]) -> tuple[str, ...]:
    """Return the generators that samples draw from and that have the same state in two workers."""
    context = loader.multiprocessing_context
    method = context.get_start_method() if context is not None else torch.multiprocessing.get_start_method()
    can_repeat = loader.worker_init_fn is not None or _get_stored_generators(loader.dataset)
    if not loader.num_workers or not can_repeat or method != "fork":
        return ()
    reads = DataLoader(
        loader.dataset,
        batch_size=1,
        sampler=[0] * _WORKERS * _READS_PER_WORKER,
        num_workers=_WORKERS,
        collate_fn=_fingerprint_worker_generators,
        worker_init_fn=loader.worker_init_fn,
        timeout=_TIMEOUT_SECONDS,
        multiprocessing_context=context,
    )
    by_worker: dict[int, list[dict[str, int]]] = {}
    for worker, fingerprints in reads:
        by_worker.setdefault(worker, []).append(fingerprints)
    first, second = by_worker[0], by_worker[1]
    names = [name for name in first[0] if first[0][name] != first[1].get(name)]
    return tuple(name for name in names if first[0][name] == second[0].get(name))


def _fingerprint_worker_generators(_: Any) -> tuple[int, dict[str, int]]:
    """Return the number of the worker that runs this, and the state of each generator after a sample was read."""
    worker = get_worker_info()
    assert worker is not None
    states = {name: get_state() for name, (_, get_state) in GENERATOR_FUNCTIONS.items()}
    stored = _get_stored_generators(worker.dataset)
    states.update({name: GeneratorSnapshot(generator).state for name, generator in stored.items()})
    return worker.id, {name: fingerprint(state) for name, state in states.items()}
