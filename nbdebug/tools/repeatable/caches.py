"""Results that caches of functools keep from one run to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import _lru_cache_wrapper
from types import FunctionType
from typing import Any, TypeAlias

_Cache: TypeAlias = "_lru_cache_wrapper[Any]"


def empty_caches(functions: Iterable[FunctionType]) -> dict[str, _Cache]:
    """Return the cached functions that some functions may call, by name: global ones, of classes, and of closures.

    A cache that holds results already is left out: a first run would find it full, like every later one, and its
    results cannot be restored.
    """
    caches: dict[str, _Cache] = {}
    for function in functions:
        names = (*function.__code__.co_names, *function.__code__.co_freevars)
        for name, value in _reachable(function):
            if name in names and isinstance(value, _lru_cache_wrapper) and not value.cache_info().currsize:
                caches[name] = value
    return caches


def _reachable(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield names and values that the code of a function may mean."""
    for name, value in function.__globals__.items():
        yield name, value
        if isinstance(value, type):
            yield from vars(value).items()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # the variable has no value yet


@contextmanager
def clear_before(cache: _Cache) -> Iterator[None]:
    """Clear a cache before the block."""
    cache.cache_clear()
    yield


@contextmanager
def clear_after(caches: Iterable[_Cache]) -> Iterator[None]:
    """Clear some caches at the end of the block."""
    try:
        yield
    finally:
        for cache in caches:
            cache.cache_clear()
