"""The line that gives the values of a sample almost no spread: a transform with its own numbers, or a computation."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from types import FunctionType
from typing import Any

import numpy as np
from torch import Tensor, nn

from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.setup.wrong_value_lines import narrow_value_line
from nbdebug.source.creation import Creation
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import covers_line, function_node

_MAX_DEPTH, _MAX_ITEMS = 4, 64
_VALUES = (bool, int, float, str, bytes, Tensor, np.ndarray, np.generic)


def narrowing_line(setup: Setup, size: int, share: float) -> SourceLine | None:
    """Return the line that first gives the values of a training sample a small spread when it is read.

    ``size`` is their number; the spread is their standard deviation, and small below a ``share`` of their root mean
    square. If an object that the dataset holds computes it from numbers of its own, that is the line which creates the
    object. None if such values are stored with the data, or if no line narrows them.
    """
    line = narrow_value_line(setup, size, share)
    dataset = getattr(setup.train_loader, "dataset", None)
    owners = [part for part in _held_objects(dataset, _MAX_DEPTH, set()) if line and _runs_line(part, line)]
    if len(owners) != 1 or not _own_numbers(owners[0]):
        return line
    owner = owners[0]
    creation = find_setup_creation(setup, owner, is_excluded=lambda call: _passes_others(call, owner))
    return creation.line if creation and not _passes_others(creation, owner) else line


def _held_objects(owner: Any, depth: int, known_ids: set[int]) -> Iterator[Any]:
    """Yield the objects that the attributes of an object hold, also in lists, tuples and dictionaries, once each."""
    values: Iterable[Any] = getattr(owner, "__dict__", {}).values()
    if isinstance(owner, (list, tuple, dict)):
        values = owner.values() if isinstance(owner, dict) else owner
    for value in islice(values, _MAX_ITEMS) if depth else ():
        if not isinstance(value, _VALUES) and id(value) not in known_ids:
            known_ids.add(id(value))
            yield value
            yield from _held_objects(value, depth - 1, known_ids)


def _runs_line(owner: Any, line: SourceLine) -> bool:
    """Check whether a line is in a call of an object of a user's class."""
    for kind in type(owner).__mro__:
        method = vars(kind).get("forward" if issubclass(kind, nn.Module) else "__call__")
        if isinstance(method, FunctionType) and is_user_code(method.__code__.co_filename):
            node = function_node(method)
            return method.__code__.co_filename == line.file and node is not None and covers_line(node, line.number)
    return False


def _own_numbers(owner: Any) -> dict[str, int | float]:
    """Return the numbers that an object stores as attributes."""
    attributes = getattr(owner, "__dict__", {})
    return {name: value for name, value in attributes.items() if type(value) in (int, float)}


def _passes_others(creation: Creation, owner: Any) -> bool:
    """Check whether a call passes a number for an attribute of the same name that is another one."""
    for name, value in _own_numbers(owner).items():
        argument = creation.argument(owner, name)
        with suppress(ValueError):  # no literal
            if argument is not None and ast.literal_eval(argument) != value:
                return True
    return False
