"""Lists of a dataset that hold one array many times, as a buffer that is filled again for each sample."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.user_code import MAX_DATASET_DEPTH, dataset_components
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, find_unique_line


@dataclass(frozen=True)
class StoredBuffer:
    """A list that a dataset keeps as ``attribute``, whose ``entries`` are all one array of a ``kind``.

    ``line`` is the one that appends to it.
    """

    attribute: str
    entries: int
    kind: str
    line: SourceLine | None


@measurement
def stored_buffer(setup: Setup) -> StoredBuffer | None:
    """The first list of the training dataset whose entries are one array; None if there is none."""
    components = [*dataset_components(getattr(setup.train_loader, "dataset", None), MAX_DATASET_DEPTH)]
    for attribute, entries in _stored_lists(components):
        if len({_address(entry) for entry in entries}) == 1 and _address(entries[0]) is not None:
            line = find_unique_line(lambda node, name=attribute: _appends_to(node, name), components)  # type: ignore[misc]
            return StoredBuffer(attribute, len(entries), type(entries[0]).__name__, line)
    return None


def _stored_lists(components: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists of several entries that some objects keep, with the name of the attribute."""
    for component in components:
        for attribute, value in vars(component).items() if hasattr(component, "__dict__") else ():
            if isinstance(value, (list, tuple)) and len(value) > 1:
                yield attribute, list(value)


def _address(entry: Any) -> int | None:
    """Return where the values of an array, a tensor or a list start; None for other objects."""
    if isinstance(entry, Tensor):
        return entry.data_ptr()
    if isinstance(entry, np.ndarray):
        return int(entry.__array_interface__["data"][0])
    return id(entry) if isinstance(entry, list) else None


def _appends_to(node: ast.AST, attribute: str) -> bool:
    """Return whether an expression appends an object, and no result of a call, to a list of a name."""
    if not isinstance(node, ast.Call) or call_name(node) != "append" or not isinstance(node.func, ast.Attribute):
        return False
    owner, is_object = node.func.value, bool(node.args) and not isinstance(node.args[0], ast.Call)
    return is_object and getattr(owner, "attr", getattr(owner, "id", "")) == attribute
