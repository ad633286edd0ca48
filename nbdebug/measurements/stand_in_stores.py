"""Stores that stand in for those of a dataset during a block, so that no read of it writes to its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.measurements.held_values import keeps_results
from nbdebug.source.shared_origins import used_functions, used_variables, user_classes

_MAX_COPIED_VALUES = 1_000_000
_EMPTY_ENTRIES: dict[str, tuple[object, ...]] = {"b": (False, True), "i": (0, -1), "u": (0,), "f": (float("nan"), 0.0)}


@dataclass(frozen=True)
class RowStore:
    """An attribute of a dataset with an entry for each sample, or a set of their indices."""

    owner: Any
    name: str

    @property
    def value(self) -> Any:
        """The tensor, the array or the set."""
        return vars(self.owner)[self.name]

    def entry(self, index: int) -> object:
        """Return what the store holds for a sample, in a form that can be compared."""
        if isinstance(self.value, set):
            return index in self.value
        row = self.value[index]
        return (row.detach().cpu().contiguous().numpy() if isinstance(row, Tensor) else np.asarray(row)).tobytes()

    def empty_entries(self) -> tuple[object, ...]:
        """Return the values that may mark an entry as empty."""
        if isinstance(self.value, set):
            return (None,)
        kind = (self.value.numpy() if isinstance(self.value, Tensor) else self.value).dtype.kind
        return _EMPTY_ENTRIES.get(kind, ())

    def forget(self, index: int, empty: object) -> None:
        """Mark the entry of a sample as empty."""
        if isinstance(self.value, set):
            self.value.discard(index)
        else:
            self.value[index] = empty

    def copy(self, rows: Sequence[int]) -> Any:
        """Return a copy; one of a large store holds some rows alone, since memory that nobody touches costs nothing."""
        if isinstance(self.value, set):
            return set(self.value)
        is_tensor, places = isinstance(self.value, Tensor), [*rows]
        size = self.value.numel() if is_tensor else self.value.size
        if size <= _MAX_COPIED_VALUES:
            return self.value.detach().clone() if is_tensor else self.value.copy()
        copied = torch.empty_like(self.value) if is_tensor else np.empty_like(self.value)
        copied[places] = self.value[places]
        return copied


def row_stores(components: Iterable[Any], count: int) -> list[RowStore]:
    """Return the tensors and arrays on the CPU with ``count`` entries, and the sets, of the objects of a dataset."""
    return [
        RowStore(component, name)
        for component in components
        if isinstance(getattr(component, "__dict__", None), dict)
        for name, value in vars(component).items()
        if type(value) is set or _has_rows(value, count)
    ]


def _has_rows(value: object, count: int) -> bool:
    if isinstance(value, Tensor):
        is_plain = type(value) is Tensor and value.layout == torch.strided and value.device.type == "cpu"
        return is_plain and value.dim() > 0 and len(value) == count and value.dtype != torch.bfloat16
    return isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == count and value.dtype.kind in "biuf"


@contextmanager
def copied_stores(stores: Sequence[RowStore], rows: Sequence[int]) -> Iterator[None]:
    """Put copies in the place of some stores for a block."""
    originals = [store.value for store in stores]
    try:
        for store in stores:
            vars(store.owner)[store.name] = store.copy(rows)
        yield
    finally:
        for store, original in zip(stores, originals, strict=True):
            vars(store.owner)[store.name] = original


@dataclass(frozen=True)
class _CachePlace:
    """A name that holds a function of the user's with ``functools.cache`` or ``functools.lru_cache``."""

    value: Any
    assign: Callable[[Any], object]

    @property
    def function(self) -> Any:
        """The function itself, without ``staticmethod`` or ``classmethod``."""
        return _unwrap(self.value)

    def replace(self, function: Any) -> None:
        """Put another function in the place."""
        self.assign(function if self.value is self.function else type(self.value)(function))


def cached_functions(components: Iterable[Any], count: int) -> list[Any]:
    """Return the functions that the objects of a dataset use and that keep ``count`` results or more."""
    functions = {id(place.function): place.function for place in _places(components)}.values()
    sizes = [(function, function.cache_parameters()["maxsize"]) for function in functions]
    return [function for function, size in sizes if size is None or size >= count]


@contextmanager
def empty_caches(components: Iterable[Any], keepers: Sequence[Any]) -> Iterator[None]:
    """Put new functions in the place of all that keep results; among them, only those for ``keepers`` keep any."""
    new: dict[int, Any] = {}
    with ExitStack() as stack:
        for place in [*_places(components)]:
            function = place.function
            size = None if any(function is keeper for keeper in keepers) else 0
            substitute = new.setdefault(id(function), functools.lru_cache(size)(function.__wrapped__))
            stack.callback(place.assign, place.value)
            place.replace(substitute)
        yield


def _unwrap(value: Any) -> Any:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _places(components: Iterable[Any]) -> Iterator[_CachePlace]:
    """Yield the attributes, the members of classes and the variables that hold such functions."""
    for component in components:
        yield from _places_of(component)


def _places_of(owner: Any) -> Iterator[_CachePlace]:
    for holder in (owner, *user_classes(type(owner))):
        for name, value in [*getattr(holder, "__dict__", {}).items()]:
            if keeps_results(_unwrap(value)):
                is_class = isinstance(holder, type)
                yield _CachePlace(
                    value, partial(setattr, holder, name) if is_class else partial(vars(holder).__setitem__, name)
                )
    for function in used_functions(owner):
        for name, value in used_variables(function).items():
            if keeps_results(value) and function.__globals__.get(name) is value:
                yield _CachePlace(value, partial(function.__globals__.__setitem__, name))
        for cell in function.__closure__ or ():
            if keeps_results(getattr(cell, "cell_contents", None)):
                yield _CachePlace(cell.cell_contents, partial(setattr, cell, "cell_contents"))
