"""What datasets hold: attributes, members of their classes, and variables that their functions use."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nbdebug.preserve.object_snapshots import take_store_snapshot
from nbdebug.preserve.process_snapshots import STORE_TYPES
from nbdebug.source.location import is_user_code
from nbdebug.source.shared_origins import CACHE_TYPE, used_functions, used_variables, user_classes


def held_values(components: Iterable[Any]) -> list[Any]:
    """Return the values of all names of some objects and of their classes, and of the variables that they use.

    Results that functions keep by ``functools.cache`` are among them.
    """
    held: list[tuple[str, Any]] = []
    for component in components:
        held += [*getattr(component, "__dict__", {}).items()]
        held += [member for kind in user_classes(type(component)) for member in vars(kind).items()]
        held += [variable for function in used_functions(component) for variable in used_variables(function).items()]
    values = [value for name, value in held if not name.startswith("__")]
    return [*values, *(result for value in values if keeps_results(value) for result in _kept_results(value))]


def has_caches(components: Iterable[Any]) -> bool:
    """Return whether some objects use a function that keeps its results."""
    return any(map(keeps_results, held_values(components)))


def keeps_results(value: Any) -> bool:
    """Return whether a value is a user's function with ``functools.cache`` or ``functools.lru_cache``."""
    code = getattr(value.__wrapped__, "__code__", None) if type(value) is CACHE_TYPE else None
    return code is not None and is_user_code(code.co_filename)


def _kept_results(function: Any) -> list[Any]:
    """Return the results that a function keeps; the garbage collector alone can list them."""
    parts = gc.get_referents(function)
    return [*parts, *(result for part in parts if type(part) is dict for result in part.values())]


@contextmanager
def emptied_again(components: Iterable[Any]) -> Iterator[None]:
    """Empty the functions of some objects after a block that had kept no results before it."""
    functions = [value for value in held_values(components) if keeps_results(value) and not _size(value)]
    try:
        yield
    finally:
        for function in functions:
            if _size(function):
                function.cache_clear()


def _size(function: Any) -> int:
    return int(function.cache_info().currsize)


def held_containers(components: Iterable[Any]) -> dict[int, Any]:
    """Return the dictionaries and lists among the held values, by id."""
    return {id(value): value for value in held_values(components) if type(value) in STORE_TYPES}


@contextmanager
def restored_containers(containers: Sequence[Any]) -> Iterator[None]:
    """Put the contents of some dictionaries and lists back in their order after a block, where they have changed."""
    snapshots = [take_store_snapshot(container) for container in containers]
    try:
        yield
    finally:
        for snapshot in snapshots:
            snapshot.restore()
