"""Streams whose augmentation is the same in each epoch, since they seed their generator when they are iterated."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import isgeneratorfunction
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.measurements.fresh_generators import (
    FreshGenerator,
    find_fresh_generators,
    find_seeding_line,
    fingerprint,
)
from nbdebug.measurements.indexed_augmentation import may_depend_on_epoch, other_seeds
from nbdebug.measurements.reading_limit import PATIENCE
from nbdebug.measurements.sample_variants import MIN_RELATED_SAMPLES, ReadSample, are_related, sample_arrays
from nbdebug.preserve import seed_all
from nbdebug.setup.time_limit import sample_time_limit
from nbdebug.setup.user_code import MAX_DATASET_DEPTH, dataset_components

GENERATOR_FUNCTIONS: dict[str, tuple[Callable[[int], Any], Callable[[], Any]]] = {
    "np.random": (np.random.seed, lambda: np.random.get_state(legacy=False)),
    "random": (random.seed, random.getstate),
    "torch": (torch.default_generator.manual_seed, torch.get_rng_state),
}
_MAX_SAMPLES, _MAX_SAMPLE_VALUES, _SECONDS = 2000, 10_000, 0.3  # of an epoch
_READINGS = 8
_READERS = ("__next__", "read", "get_nowait", "recv")  # methods that take something away from what they read
_MAX_EQUAL, _MAX_COMPARED = 0.5, 200
_Epoch = list[list[np.ndarray[Any, Any]]]


class _EpochTooLong(Exception):
    """An epoch has too many samples, or takes too long."""


def find_repeated_stream(loader: Any) -> tuple[FreshGenerator, ...]:
    """Return the generators that give a stream the same augmentation in each epoch; empty without any.

    Two epochs are iterated one after the other and must be equal, although the global generators differ. With other
    seeds of the generators that are created or seeded in the epoch, the inputs must change and the targets stay the
    same; permutations of NumPy's generators stay. The samples at a position must be closer to each other than to those
    at other positions, by four standard errors: they are variants of a stored sample. Streams that generate their
    samples have none. Epochs of more than 2,000 samples, 0.3 s of processor time, or 2.4 s in all are not
    iterated, nor those in workers, nor streams that hold an iterator. Each sample must have a target of one number.
    """
    dataset = getattr(loader, "dataset", None)
    if not isinstance(loader, DataLoader) or not isinstance(dataset, IterableDataset) or loader.num_workers:
        return ()
    components = [*dataset_components(dataset, MAX_DATASET_DEPTH)]
    if not isgeneratorfunction(type(dataset).__iter__) or any(map(_holds_iterator, components)):
        return ()
    if may_depend_on_epoch(dataset, components, own_methods=("__init__", "__iter__")):
        return ()
    first, second = (_read_epoch(dataset, number) for number in (1, 2))
    if first is None or second is None or not _are_equal(first, second):
        return ()
    readings: list[_Epoch] = []
    for number in range(1, _READINGS + 1):
        with other_seeds(number, keeps_order=True):
            other = _read_epoch(dataset, 1)
        if other is None or not _has_same_targets(first, other):
            return ()
        readings.append(other[:_MAX_COMPARED])
    if not are_related([[_as_sample(sample) for sample in epoch] for epoch in readings]):
        return ()
    return (*_find_seeded(dataset), *find_fresh_generators(lambda _: _read_epoch(dataset, 1), [0, 0]))


def _holds_iterator(component: Any, depth: int = 3) -> bool:
    """Return whether an object holds an iterator, a file, a queue or a connection, which reading would use up."""
    values = component if isinstance(component, (list, tuple)) else getattr(component, "__dict__", component)
    parts = [*values.values()] if isinstance(values, dict) else [*values] if isinstance(values, (list, tuple)) else []
    return any(
        any(hasattr(type(part), name) for name in _READERS) or (depth > 0 and _holds_iterator(part, depth - 1))
        for part in parts[:_MAX_SAMPLES]
    )


def _read_epoch(dataset: Any, number: int) -> _Epoch | None:
    """Return the numbers of all samples of an epoch; None if there are too few or too many."""
    seed_all(number)
    epoch: _Epoch = []
    try:
        for sample in _iterate_in_time(dataset):
            epoch.append(sample_arrays(sample))
            if sum(array.size for array in epoch[-1]) > _MAX_SAMPLE_VALUES:
                return None
    except _EpochTooLong:
        return None
    return epoch if len(epoch) >= MIN_RELATED_SAMPLES else None


def _iterate_in_time(dataset: Any) -> Iterator[Any]:
    """Yield the samples of an epoch; raises _EpochTooLong if there are too many, or if they take too long."""
    started, begun = thread_time(), perf_counter()
    with sample_time_limit():
        for number, sample in enumerate(dataset, 1):
            yield sample
            is_slow = thread_time() - started > _SECONDS or perf_counter() - begun > PATIENCE * _SECONDS
            if is_slow or number > _MAX_SAMPLES:
                raise _EpochTooLong


def _pass_over(dataset: Any) -> None:
    """Iterate over an epoch, or its beginning if it takes too long, as under a tracer."""
    with suppress(_EpochTooLong):
        for _ in _iterate_in_time(dataset):
            pass


def _are_equal(first: _Epoch, second: _Epoch) -> bool:
    return len(first) == len(second) and all(
        len(one) == len(other) and all(map(np.array_equal, one, other))
        for one, other in zip(first, second, strict=True)
    )


def _has_same_targets(first: _Epoch, other: _Epoch) -> bool:
    """Return whether two epochs have the same targets in any order, and most inputs of the second are new."""
    if len(first) != len(other) or min(map(len, (*first, *other))) < 2:
        return False
    if any(sample[-1].size != 1 for sample in (*first, *other)):
        return False
    targets, inputs = ([[_key(part(s)) for s in e] for e in (first, other)] for part in (_target, _inputs))
    known = {*inputs[0]}
    repeated = sum(key in known for key in inputs[1])
    return sorted(targets[0]) == sorted(targets[1]) and repeated <= _MAX_EQUAL * len(other)


def _target(sample: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    return sample[-1:]


def _inputs(sample: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    return sample[:-1]


def _key(arrays: list[np.ndarray[Any, Any]]) -> bytes:
    return b"".join(array.tobytes() for array in arrays)


def _as_sample(sample: list[np.ndarray[Any, Any]]) -> ReadSample:
    values = [torch.from_numpy(array.astype(np.float64)).flatten() for array in _inputs(sample)]
    target = sample[-1]
    is_class = target.size == 1 and target.dtype.kind in "iub"
    return ReadSample(torch.cat(values), (int(target.reshape(())),) if is_class else ())


def _find_seeded(dataset: Any) -> list[FreshGenerator]:
    """Return the global generators that an epoch seeds, each with the line that does."""
    seeded: list[FreshGenerator] = []
    for name, (seed, get_state) in GENERATOR_FUNCTIONS.items():
        states: list[int] = []
        for number in (1, 2):
            seed(number)
            before = fingerprint(get_state())
            _pass_over(dataset)
            states.append(fingerprint(get_state()) if fingerprint(get_state()) != before else number)
        if states[0] == states[1]:
            seeded.append(FreshGenerator(name, find_seeding_line(lambda: _pass_over(dataset), seed, get_state)))
    return seeded
