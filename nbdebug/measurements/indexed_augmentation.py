"""Augmentation whose random numbers depend on the index of a sample alone, found by reads with other seeds."""

from __future__ import annotations

import ast
import os
import random
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.measurements.fresh_generators import fingerprint
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.replaced_functions import replace_random_functions
from nbdebug.measurements.sample_variants import (
    MIN_RELATED_SAMPLES,
    ReadSample,
    are_related,
    sample_arrays,
)
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, GeneratorSnapshot
from nbdebug.setup.time_limit import sample_time_limit
from nbdebug.source.search import file_nodes, search_files, syntax_tree
from nbdebug.source.shared_origins import used_functions, used_variables

_MAX_SAMPLES, _READINGS, _SECONDS = 64, 8, 0.05  # of a reading
_MIN_CHANGED_SHARE = 0.5  # of the samples: a flip with a probability of one half leaves the others as they are
_SEEDING_METHODS = ("manual_seed", "seed")
_Arrays = list[np.ndarray[Any, Any]]


def has_indexed_augmentation(dataset: Any, components: Sequence[Any], indices: Sequence[int]) -> bool:
    """Return whether other seeds change the samples of a dataset only slightly, and not their labels.

    A sample then stays closer to its variants than to other samples of its class, by four standard errors. The dataset
    must store a path, or at least as many values, for each sample: others generate their samples. Each sample has
    labels of one number, and nothing else is unchanged: the noise of a pair of a noisy and a clean sample may be fixed.
    """
    readings = list[list[_Arrays]]()
    for number in range(_READINGS):
        samples = _read(dataset, indices[:_MAX_SAMPLES], number)
        if len(samples) < MIN_RELATED_SAMPLES:
            return False
        readings.append(samples)
        indices = indices[: len(samples)]
        if number == 1 and not _may_be_variants(readings[0], readings[1]):
            return False
    readings = [samples[: len(indices)] for samples in readings]
    positions = _changed_positions(readings[0], readings[1])
    size = sum(readings[0][0][position].size for position in positions)
    if not any(_stores_samples(component, size) for component in components):
        return False
    variants = [[_as_sample(arrays, positions) for arrays in samples] for samples in readings]
    return are_related(variants) or are_related([[_spectrum(sample) for sample in samples] for samples in variants])


def _spectrum(sample: ReadSample) -> ReadSample:
    """Return the amplitudes of the frequencies of a sample, which a shift or another cut hardly changes."""
    return replace(sample, values=torch.fft.rfft(sample.values).abs())


def may_depend_on_epoch(dataset: Any, components: Sequence[Any], own_methods: Collection[str] = ("__init__",)) -> bool:
    """Return whether a program sets numbers that the code of a dataset uses, as the epoch that seeds depend on.

    What ``own_methods`` set does not count.
    """
    if any(hasattr(component, "set_epoch") for component in components):
        return True
    functions = [function for component in components for function in used_functions(component)]
    named = {name for function in functions for name in function.__code__.co_names}
    held = {name for component in components for name, value in _attributes(component) if _is_counter(value)}
    variables = {name for function in functions for name, value in used_variables(function).items() if _is_int(value)}
    return any(
        not {*_set_names(node)}.isdisjoint(held & named if is_attribute else variables)
        for file in search_files([dataset, *functions])
        for node, is_attribute in _setting_nodes(syntax_tree(file), own_methods)
    )


def _attributes(component: Any) -> list[tuple[str, Any]]:
    return [*getattr(component, "__dict__", {}).items(), *vars(type(component)).items()]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_counter(value: Any) -> bool:
    """Return whether a value may count epochs: a whole number, a tensor of one number, or one shared by processes."""
    is_single = isinstance(value, Tensor) and value.numel() == 1
    return _is_int(value) or is_single or isinstance(value, dict) or hasattr(value, "get_lock")


def _setting_nodes(tree: ast.Module | None, own_methods: Collection[str]) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the targets of assignments outside of some methods, each with whether an attribute is meant."""
    initial = {
        id(node)
        for function in (file_nodes(tree) if tree else ())
        if isinstance(function, ast.FunctionDef) and function.name in own_methods
        for node in ast.walk(function)
    }
    for node in file_nodes(tree) if tree else ():
        if isinstance(node, ast.Global | ast.For):
            yield (node if isinstance(node, ast.Global) else node.target), False
        if isinstance(node, ast.Assign | ast.AugAssign) and id(node) not in initial:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield target, True


def _set_names(node: ast.AST) -> Iterator[str]:
    """Yield the names of a statement ``global``, or those and the attributes in a target."""
    yield from node.names if isinstance(node, ast.Global) else ()
    for part in ast.walk(node):
        if isinstance(part, (ast.Attribute, ast.Name)):
            yield part.attr if isinstance(part, ast.Attribute) else part.id


def _read(dataset: Any, indices: Sequence[int], number: int) -> list[_Arrays]:
    """Return the numbers of some samples, with other seeds unless ``number`` is 0."""
    limit, samples = ReadingLimit(_SECONDS, MIN_RELATED_SAMPLES), list[_Arrays]()
    for index in indices:
        with sample_time_limit(), other_seeds(number):
            samples.append(sample_arrays(dataset[index]))
        if limit.ends_after(len(samples)):
            break
    return samples


def _may_be_variants(first: list[_Arrays], second: list[_Arrays]) -> bool:
    """Return whether many samples have changed, but no label, and only labels are unchanged."""
    shapes = {tuple(array.shape for array in arrays) for arrays in (*first, *second)}
    if len(shapes) > 1 or not all(first) or not all(second):
        return False
    positions = _changed_positions(first, second)
    unchanged = [array for position, array in enumerate(first[0]) if position not in positions]
    is_changed = [
        any(not np.array_equal(one[i], other[i]) for i in positions) for one, other in zip(first, second, strict=False)
    ]
    are_labels = bool(unchanged) and all(array.size == 1 for array in unchanged)
    return are_labels and bool(positions) and sum(is_changed) >= _MIN_CHANGED_SHARE * len(is_changed)


def _changed_positions(first: list[_Arrays], second: list[_Arrays]) -> list[int]:
    pairs = [*zip(first, second, strict=False)]
    return [
        position
        for position in range(len(first[0]))
        if any(not np.array_equal(one[position], other[position]) for one, other in pairs)
    ]


def _as_sample(arrays: _Arrays, positions: Sequence[int]) -> ReadSample:
    values = [torch.from_numpy(arrays[position].astype(np.float64)).flatten() for position in positions]
    unchanged = [array for position, array in enumerate(arrays) if position not in positions]
    return ReadSample(
        torch.cat(values), tuple(int(array.reshape(())) for array in unchanged if array.dtype.kind in "iub")
    )


def _stores_samples(component: Any, size: int) -> bool:
    """Return whether a dataset holds a path, or at least ``size`` values, for each of its samples."""
    if not hasattr(component, "__len__"):
        return False
    for value in getattr(component, "__dict__", {}).values():
        is_sized = isinstance(value, (list, tuple)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim > 1)
        if not is_sized or len(value) != len(component):
            continue
        first = value[0][0] if isinstance(value[0], tuple) else value[0]
        if isinstance(first, (str, os.PathLike)):
            return True
        if isinstance(first, (Tensor, np.ndarray)) and np.prod(first.shape) >= size:
            return True
    return False


class _OrderedGenerator(np.random.Generator):
    """A generator that draws permutations from another one."""

    def __init__(self, bit_generator: np.random.BitGenerator, order: np.random.Generator) -> None:
        super().__init__(bit_generator)
        self.permutation, self.shuffle = order.permutation, order.shuffle  # type: ignore[method-assign]


@contextmanager
def other_seeds(number: int, *, keeps_order: bool = False) -> Iterator[None]:
    """Give generators that are created or seeded in a block other seeds, the same for each ``number``; 0 changes none.

    Generators without a seed stay as they are. With ``keeps_order``, those of NumPy draw permutations by the seed that
    they were given.
    """
    if not number:
        yield
        return
    create, seed, state_type = np.random.default_rng, np.random.seed, np.random.RandomState

    def other_seed(*values: Any) -> int:
        return zlib.crc32(repr((number, values)).encode())

    def create_other(*args: Any, **kwargs: Any) -> np.random.Generator:
        values = (*args, *kwargs.values())
        is_seeded = bool(values) and values[0] is not None
        is_seed = is_seeded and not isinstance(values[0], (np.random.Generator, np.random.BitGenerator))
        if not is_seed:
            return create(*args, **kwargs)
        other = create(other_seed(*values))
        return _OrderedGenerator(other.bit_generator, create(*args, **kwargs)) if keeps_order else other

    class OtherState(state_type):  # type: ignore[misc, valid-type]
        def __init__(self, seed: Any = None) -> None:
            super().__init__(None if seed is None else other_seed(seed))

    def seed_other(value: Any = None) -> None:
        seed(None if value is None else other_seed(value))

    def reseed_after_call(_: FrameType, event: str, argument: Any) -> None:
        generator = getattr(argument, "__self__", None)
        name = getattr(argument, "__name__", "")
        if event == "c_return" and name in _SEEDING_METHODS and isinstance(generator, GENERATOR_TYPES):
            # The state of random.Random is incomplete within seed(), which runs the method of its base class.
            base: Any = super(random.Random, generator) if isinstance(generator, random.Random) else None
            state = base.getstate() if base else GeneratorSnapshot(generator).state
            getattr(base or generator, name)(other_seed(fingerprint(state)))

    functions = {"default_rng": create_other, "seed": seed_other, "RandomState": OtherState}
    with replace_random_functions(reseed_after_call, **functions):
        yield
