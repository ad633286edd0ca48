"""Snapshots of random generators, torch's global settings, data loaders and datasets."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.preserve.object_snapshots import (
    Contents,
    ObjectSnapshot,
    SettingSnapshot,
    Snapshot,
    ValueSnapshot,
    is_leaf_type,
)

_DATASET_ATTRIBUTES = ("dataset", "collate_fn")
STORE_TYPES: tuple[type, ...] = (list, dict, OrderedDict, defaultdict)
_MAX_COMPONENTS = 100  # a longer list holds samples, not components of a dataset


def _set_generator_state(generator: Any, state: Any) -> None:
    generator.state = state


_GENERATOR_ACCESS: tuple[tuple[type, Callable[[Any], Any], Callable[[Any, Any], object]], ...] = (
    (random.Random, random.Random.getstate, random.Random.setstate),
    (torch.Generator, torch.Generator.get_state, torch.Generator.set_state),
    (
        np.random.Generator,
        lambda one: one.bit_generator.state,
        lambda one, state: _set_generator_state(one.bit_generator, state),
    ),
    (np.random.BitGenerator, lambda one: one.state, _set_generator_state),
    (np.random.RandomState, lambda one: one.get_state(legacy=False), np.random.RandomState.set_state),
)
GENERATOR_TYPES = tuple(kind for kind, _, _ in _GENERATOR_ACCESS)


class GeneratorSnapshot(Snapshot):
    """Snapshot of a random generator. SystemRandom has no state."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.read, self.write = next(
            (read, write) for kind, read, write in _GENERATOR_ACCESS if isinstance(original, kind)
        )
        self.state = None if isinstance(original, random.SystemRandom) else self.read(original)

    def restore(self) -> None:
        """Restore the state."""
        if self.state is not None:
            self.write(self.original, self.state)


def global_generators() -> Iterator[tuple[str, Snapshot]]:
    """Yield snapshots of the global generators, each with its name."""
    yield "random", ValueSnapshot(random.getstate, random.setstate)
    yield "numpy.random", ValueSnapshot(lambda: np.random.get_state(legacy=False), np.random.set_state)
    yield "torch's CPU generator", ValueSnapshot(torch.get_rng_state, torch.set_rng_state)
    if _is_cuda_initialized():
        yield "torch's CUDA generators", ValueSnapshot(_cuda_states, _set_cuda_states)
    else:
        yield "torch's CUDA generators", ValueSnapshot(lambda: None, _seed_initialized_cuda)
    if torch.backends.mps.is_available():
        yield "torch's MPS generator", ValueSnapshot(torch.mps.get_rng_state, torch.mps.set_rng_state)


def seed_all(number: int) -> None:
    """Seed Python, numpy and torch, on the CPU and on devices that are in use.

    ``torch.manual_seed`` would also queue a seed, with its traceback, for a CUDA device that is not in use yet.
    """
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number)
    if _is_cuda_initialized():
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)


def _cuda_states() -> list[Tensor]:
    """Return the state of the generator of each device; [] after a failed assertion, when every call of CUDA raises."""
    try:
        return torch.cuda.get_rng_state_all()
    except RuntimeError:
        return []


def _set_cuda_states(states: list[Tensor]) -> None:
    if states:
        torch.cuda.set_rng_state_all(states)


def _seed_initialized_cuda(_: None) -> None:
    """Seed devices that the block initialized as ``torch.manual_seed`` would have: all devices with one seed."""
    if _is_cuda_initialized():
        torch.cuda.manual_seed_all(torch.initial_seed())


def _is_cuda_initialized() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def global_settings() -> Iterator[tuple[str, Snapshot]]:
    """Yield snapshots of the settings of the process."""
    yield "anomaly mode", SettingSnapshot(_anomaly_flags, lambda flags: torch.autograd.set_detect_anomaly(*flags))
    yield "default dtype", SettingSnapshot(torch.get_default_dtype, torch.set_default_dtype)
    yield "determinism", SettingSnapshot(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode)
    for name in ("enabled", "benchmark", "deterministic"):
        yield f"cudnn.{name}", SettingSnapshot(partial(getattr, torch.backends.cudnn, name),
                                           partial(setattr, torch.backends.cudnn, name))  # fmt: skip


def thread_settings() -> Iterator[tuple[str, Snapshot]]:
    """Yield snapshots of the settings of the current thread."""
    yield "grad mode", SettingSnapshot(torch.is_grad_enabled, torch.set_grad_enabled)
    yield "number of threads", SettingSnapshot(torch.get_num_threads, torch.set_num_threads)
    # A weight that autocast has cast and cached must be cast again after its values are restored.
    yield "autocast weights", ValueSnapshot(lambda: None, lambda _: torch.clear_autocast_cache())
    yield "autocast cache", SettingSnapshot(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)
    for device in ("cpu", "cuda"):
        yield f"autocast on {device}", SettingSnapshot(partial(torch.is_autocast_enabled, device),
                                                   partial(torch.set_autocast_enabled, device))  # fmt: skip
        yield f"autocast dtype on {device}", SettingSnapshot(partial(torch.get_autocast_dtype, device),
                                                         partial(torch.set_autocast_dtype, device))  # fmt: skip


def _anomaly_flags() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


class LoaderSnapshot(ObjectSnapshot):
    """Snapshot of a DataLoader. An iterator with live workers is set aside, so that the block starts new workers."""

    def contents(self) -> Contents:
        """Generator and samplers."""
        yield from ((name, value) for name, value in super().contents() if name[1:] not in _DATASET_ATTRIBUTES)

    def dataset_contents(self) -> Contents:
        """Dataset and collate function."""
        yield from ((name, value) for name, value in super().contents() if name[1:] in _DATASET_ATTRIBUTES)

    def set_aside(self) -> None:
        """Remove the loader's iterator."""
        if vars(self.original).get("_iterator") is not None:
            vars(self.original)["_iterator"] = None


class DatasetSnapshot(Snapshot):
    """Snapshot of a dataset or a component of one: generators by value, attributes by reference, no data."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.attributes = (
            None if _is_component_list(original) or is_leaf_type(type(original)) else ObjectSnapshot(original)
        )

    def contents(self) -> Contents:
        """Random generators."""
        yield from (
            (name, component) for name, component in self._components() if isinstance(component, GENERATOR_TYPES)
        )

    def dataset_contents(self) -> Contents:
        """Wrapped datasets, transforms and short lists of them; no nested lists."""
        for name, component in self._components():
            if not is_leaf_type(type(component)) or (
                _is_component_list(component) and not _is_component_list(self.original)
            ):
                yield name, component

    def stores(self) -> Contents:
        """Lists and dictionaries among the attributes, of any length: a dataset may keep samples there."""
        if self.attributes is not None:
            yield from ((name, value) for name, value in self.attributes.contents() if type(value) in STORE_TYPES)

    def restore(self) -> None:
        """Restore the attributes."""
        if self.attributes is not None:
            self.attributes.restore()

    def _components(self) -> Contents:
        if self.attributes is not None:
            yield from self.attributes.contents()
        elif _is_component_list(self.original):
            values = self.original.values() if isinstance(self.original, dict) else self.original
            yield from ((f"[{index}]", value) for index, value in enumerate(values))


def _is_component_list(value: Any) -> bool:
    return type(value) in (list, tuple, dict) and len(value) <= _MAX_COMPONENTS
