"""Containers that a training and a validation dataset have in common, so that one returns samples of the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.measurements.duplicates import SharedSamples, resolve_subsets
from nbdebug.measurements.held_values import held_containers, restored_containers
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.user_code import MAX_DATASET_DEPTH, dataset_components
from nbdebug.source.shared_origins import SharedOrigin, find_shared_origin
from nbdebug.tensors.hashing import hash_value

_SINGLE_VALUE_TYPES = (int, float, str, bool, type(None))
_MAX_PAIRS = 3


@dataclass(frozen=True)
class SharedStore:
    """A container from which both datasets return the same samples.

    If ``is_cache``, it is filled as samples are read: emptied before the read, it gives another validation sample.
    Otherwise the datasets return these samples without any other data of their own.
    """

    kind: type
    is_cache: bool
    origin: SharedOrigin | None


@measurement
def shared_store(setup: Setup, shared_samples: SharedSamples) -> SharedStore | None:
    """The container that two datasets share, if it alone makes validation samples equal to training samples."""
    loaders = setup.train_loader, setup.val_loader
    if not shared_samples.pairs or shared_samples.matched_by != "content" or not all(map(is_map_style, loaders)):
        return None
    train, val = (loader.dataset for loader in loaders)
    try:
        with Preserve(train, val), torch.no_grad():
            return _find_store(train, val, shared_samples.pairs[:_MAX_PAIRS])
    except Exception:  # the samples are equal, whatever the reason is
        return None


def _find_store(train: Any, val: Any, pairs: Sequence[tuple[int, int]]) -> SharedStore | None:
    """Return the first container that makes all of some pairs equal; all of them together count as the first."""
    components = [*dataset_components(train, MAX_DATASET_DEPTH)]
    held = held_containers(dataset_components(val, MAX_DATASET_DEPTH))
    stores = [store for key, store in held_containers(components).items() if key in held]
    for group in [*([store] for store in stores), stores] if stores else ():
        if all(_is_filled_by_reads(stores, group, (train, val), pair) for pair in pairs):
            return SharedStore(type(group[0]), True, find_shared_origin(group[0], components))
    for store in stores:
        origin = find_shared_origin(store, components)
        if origin and all(_is_the_only_data(stores, store, (train, val), pair) for pair in pairs):
            return SharedStore(type(store), False, origin)
    return None


def _is_filled_by_reads(
    stores: Sequence[Any], group: Sequence[Any], datasets: tuple[Any, Any], pair: tuple[int, int]
) -> bool:
    """Check whether a validation sample is equal to a training sample only as long as a group keeps what was read."""
    try:
        with restored_containers(stores):
            _empty(group)
            first, second = map(_read, datasets, pair)
        with restored_containers(stores):
            _empty(group)
            own = _read(datasets[1], pair[1])
    except Exception:  # the group was filled before the reads
        return False
    return first == second != own


def _is_the_only_data(stores: Sequence[Any], store: Any, datasets: tuple[Any, Any], pair: tuple[int, int]) -> bool:
    """Check whether both datasets need a store to return a sample, and no other data."""
    roots = [resolve_subsets(dataset, [index]) for dataset, index in zip(datasets, pair, strict=True)]
    if roots[0][1] != roots[1][1]:
        return False
    try:
        with restored_containers(stores):
            samples = {*map(_read, datasets, pair)}
            bare = {_read(_without_data(root, store), index) for root, (index,) in roots}
    except Exception:  # they need other data
        return False
    try:
        with restored_containers(stores):
            store.clear()
            samples.add(_read(datasets[1], pair[1]))
    except Exception:  # they need the store
        return len(samples) == 1 and bare == samples
    return False


def _without_data(dataset: Any, store: Any) -> Any:
    """Return a dataset of the same class whose only attributes are a store, functions and single values."""
    bare = object.__new__(type(dataset))
    for name, value in vars(dataset).items():
        if value is store or isinstance(value, _SINGLE_VALUE_TYPES) or callable(value):
            vars(bare)[name] = value
    return bare


def _empty(stores: Iterable[Any]) -> None:
    for store in stores:
        store.clear()


def _read(dataset: Any, index: int) -> int:
    """Return a hash of a sample, read with a fixed seed."""
    seed_all(0)
    return hash_value(dataset[index])
