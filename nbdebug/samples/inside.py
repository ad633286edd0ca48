"""What a data set is made of: the data sets that it wraps, its transforms, what its functions refer to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

DEEPEST = 10
MOST = 2_000  # things looked at: a data set of objects is not searched to its end
LONGEST = 64  # a longer list is samples, not parts


def inside(*roots: Any) -> Iterator[tuple[str, Any]]:
    """Everything near some objects with the name that it has there, the nearest first, nothing twice.

    Wrapped data sets (``Subset``, ``ConcatDataset``), transforms in transforms, what functions close over, and the
    globals that they and ``__getitem__`` name.
    """
    queue = [("", one, 0) for one in roots if one is not None]
    seen = set[int]()
    while queue and len(seen) < MOST:
        name, thing, depth = queue.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        yield name, thing
        if depth < DEEPEST:
            queue += [(inner or name, one, depth + 1) for inner, one in held(thing)]


def held(thing: Any) -> Iterator[tuple[str, Any]]:
    """What one thing holds, without asking it to compute anything."""
    if is_data(thing):
        return
    if isinstance(thing, (list, tuple)):
        yield from (("", one) for one in thing[:LONGEST] if len(thing) <= LONGEST)
    elif isinstance(thing, partial):
        yield from (("", one) for one in (thing.func, *thing.args))
        yield from thing.keywords.items()
    elif isinstance(thing, MethodType):
        yield from (("", one) for one in (thing.__self__, thing.__func__))
    elif isinstance(thing, FunctionType):
        yield from referred(thing)
    elif not isinstance(thing, type):
        yield from getattr(thing, "__dict__", {}).items()
        yield from shared(type(thing))
        method = getattr(type(thing), "__getitem__", None)
        if isinstance(method, FunctionType):
            yield from referred(method)


def shared(kind: type) -> Iterator[tuple[str, Any]]:
    """What all objects of a user's class share: lists and other objects, and no functions."""
    if kind.__module__.partition(".")[0] in ("builtins", "torch"):
        return
    for name, one in vars(kind).items():
        if not name.startswith("_") and not callable(one) and not hasattr(one, "__get__"):
            yield name, one


def referred(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function closes over, and the globals that its code names, but for modules and classes."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a name that is not bound yet
            continue
    for name in code.co_names:
        found = function.__globals__.get(name)
        if found is not None and not isinstance(found, type) and not hasattr(found, "__spec__"):
            yield name, found


def is_data(thing: Any) -> bool:
    """Whether this is data and not a part: numbers, texts, arrays, tensors, frames."""
    plain = isinstance(thing, (str, bytes, int, float, complex, dict, set, frozenset, np.ndarray, type(None)))
    return plain or hasattr(thing, "detach") or hasattr(thing, "iloc")
