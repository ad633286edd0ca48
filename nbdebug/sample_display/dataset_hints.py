"""Finds properties of a data set: normalization, vocabulary, feature names, sample rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from nbdebug.sample_display.image_normalization import Normalization, read_normalization
from nbdebug.sample_display.vocabulary import Vocabulary, find_vocabulary

_MAX_DEPTH = 10
_MAX_OBJECTS = 2_000  # objects visited, so that a data set of objects is not searched to its end
_MAX_LIST_LENGTH = 64  # a longer list holds samples, not components
_SAMPLE_RATE_NAMES = ("sample_rate", "sampling_rate", "samplerate", "sr", "rate")


def _walk_nearby_objects(*roots: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects near some roots with their names, nearest first, each once.

    Follows wrapped data sets (``Subset``, ``ConcatDataset``), nested transforms, closures of functions, and the globals
    that functions and ``__getitem__`` use.
    """
    queue = [("", child, 0) for child in roots if child is not None]
    visited_ids = set[int]()
    while queue and len(visited_ids) < _MAX_OBJECTS:
        name, current, depth = queue.pop(0)
        if id(current) in visited_ids:
            continue
        visited_ids.add(id(current))
        yield name, current
        if depth < _MAX_DEPTH:
            queue += [(inner or name, child, depth + 1) for inner, child in _contained_objects(current)]


def _contained_objects(container: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that an object holds, without triggering any computation."""
    if _is_data(container):
        return
    if isinstance(container, (list, tuple)):
        yield from (("", item) for item in container[:_MAX_LIST_LENGTH] if len(container) <= _MAX_LIST_LENGTH)
    elif isinstance(container, partial):
        yield from (("", item) for item in (container.func, *container.args))
        yield from container.keywords.items()
    elif isinstance(container, MethodType):
        yield from (("", item) for item in (container.__self__, container.__func__))
    elif isinstance(container, FunctionType):
        yield from _referenced_objects(container)
    elif not isinstance(container, type):
        yield from getattr(container, "__dict__", {}).items()
        yield from _class_attributes(type(container))
        method = getattr(type(container), "__getitem__", None)
        if isinstance(method, FunctionType):
            yield from _referenced_objects(method)


def _class_attributes(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the class attributes of a user's class, except functions."""
    if kind.__module__.partition(".")[0] in ("builtins", "torch"):
        return
    for name, value in vars(kind).items():
        if not name.startswith("_") and not callable(value) and not hasattr(value, "__get__"):
            yield name, value


def _referenced_objects(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the closure variables of a function and the globals that its code uses, except modules and classes."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the name is not bound yet
            continue
    for name in code.co_names:
        value = function.__globals__.get(name)
        if value is not None and not isinstance(value, type) and not hasattr(value, "__spec__"):
            yield name, value


def _is_data(value: Any) -> bool:
    """Check whether this is data rather than a component: numbers, texts, arrays, tensors, frames."""
    plain = isinstance(value, (str, bytes, int, float, complex, dict, set, frozenset, np.ndarray, type(None)))
    return plain or hasattr(value, "detach") or hasattr(value, "iloc")


@dataclass
class DatasetHints:
    """Properties given by the user, or else found near the data set when they are first needed."""

    source: Any = None
    near: Sequence[Any] = ()
    feature_names: Sequence[str] | None = None
    decode: Any = None
    rate: int | None = None
    stretch: bool = False

    @cached_property
    def nearby_objects(self) -> list[tuple[str, Any]]:
        """All objects near the data set, with their names."""
        return list(_walk_nearby_objects(self.source, *self.near))

    @cached_property
    def normalization(self) -> Normalization | None:
        """The normalization applied by the data set's transforms."""
        return next(
            (result for _, candidate in self.nearby_objects if (result := read_normalization(candidate)) is not None),
            None,
        )

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary that decodes token ids."""
        return find_vocabulary(self.nearby_objects if self.decode is None else [("decode", self.decode)])

    @cached_property
    def columns(self) -> Sequence[str] | None:
        """The feature names."""
        if self.feature_names is not None:
            return list(self.feature_names)
        candidates = dict(self.nearby_objects)
        for name in ("feature_names", "features", "columns"):
            names = candidates.get(name)
            if isinstance(names, (list, tuple)) and names and all(isinstance(item, str) for item in names):
                return list(names)
        return None

    @cached_property
    def sample_rate(self) -> int | None:
        """The sample rate of sounds in Hz."""
        if self.rate is not None:
            return int(self.rate)
        rates = [
            value
            for name, value in self.nearby_objects
            if name.lower().strip("_") in _SAMPLE_RATE_NAMES and isinstance(value, int)
        ]
        return next((rate for rate in rates if 2_000 <= rate <= 400_000), None)
