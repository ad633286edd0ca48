"""Traversal of all objects reachable from a training setup; takes one snapshot of each."""

from __future__ import annotations

from array import array
from collections import deque
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from nbdebug.exceptions import SetupError
from nbdebug.preserve.object_snapshots import (
    IMMUTABLE_TYPES,
    ArraySnapshot,
    BytesSnapshot,
    DequeSnapshot,
    DictSnapshot,
    ItemsSnapshot,
    ListSnapshot,
    ObjectSnapshot,
    ScriptModuleSnapshot,
    SetSnapshot,
    Snapshot,
    StateDictSnapshot,
    is_leaf_type,
    take_store_snapshot,
)
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, DatasetSnapshot, GeneratorSnapshot, LoaderSnapshot
from nbdebug.preserve.tensor_snapshots import OptimizerSnapshot, TensorSnapshot

_SNAPSHOT_TYPES: tuple[tuple[tuple[type, ...], type[Snapshot]], ...] = (
    ((torch.Tensor,), TensorSnapshot),
    ((torch.jit.ScriptModule,), ScriptModuleSnapshot),
    ((torch.optim.Optimizer,), OptimizerSnapshot),
    ((DataLoader,), LoaderSnapshot),
    ((Dataset,), DatasetSnapshot),
    (GENERATOR_TYPES, GeneratorSnapshot),
    ((dict,), DictSnapshot),
    ((list,), ListSnapshot),
    ((tuple, frozenset), ItemsSnapshot),
    ((set,), SetSnapshot),
    ((deque,), DequeSnapshot),
    ((bytearray, array), BytesSnapshot),
    ((np.ndarray,), ArraySnapshot),
    ((FunctionType,), ObjectSnapshot),
)


class _ObjectPath(NamedTuple):
    """Access path of an object, formatted only for an error message."""

    step: str
    parent: _ObjectPath | None = None

    def __str__(self) -> str:
        steps: list[str] = []
        path: _ObjectPath | None = self
        while path is not None:
            steps.append(path.step)
            path = path.parent
        return "".join(reversed(steps))


class Traversal:
    """Takes snapshots, in the order of traversal."""

    def __init__(self) -> None:
        self.snapshots: list[tuple[_ObjectPath, Snapshot]] = []
        self._visited: dict[int, Any] = {}
        self._snapshot_types: dict[type, type[Snapshot] | None] = dict.fromkeys(IMMUTABLE_TYPES)

    def take_snapshot(self, original: Any) -> None:
        """Take snapshots of an object and its contents; a bound method stands for its object."""
        if isinstance(original, MethodType):
            original = original.__self__
        self._follow(original, self._snapshot_type(type(original)))

    def take_loader_snapshot(self, loader: Any) -> None:
        """Take snapshots of a data loader; an unknown type is treated as a dataset."""
        self._follow(loader, LoaderSnapshot if isinstance(loader, DataLoader) else DatasetSnapshot)

    def take_store_snapshots(self) -> None:
        """Take snapshots of what the datasets so far keep in lists and dictionaries, by reference."""
        datasets = [(path, snapshot) for path, snapshot in self.snapshots if isinstance(snapshot, DatasetSnapshot)]
        for path, dataset in datasets:
            for step, store in dataset.stores():
                self.snapshots.append((_ObjectPath(step, path), take_store_snapshot(store)))

    def _follow(self, root: Any, snapshot_type: type[Snapshot] | None) -> None:
        queue = deque([(_ObjectPath(type(root).__name__), root, snapshot_type)])
        while queue:
            path, original, snapshot_type = queue.popleft()
            if snapshot_type is None or id(original) in self._visited:
                continue
            self._visited[id(original)] = original
            snapshot = _take_snapshot_of(snapshot_type, path, original)
            self.snapshots.append((path, snapshot))
            self._visited.update((id(content), content) for content in snapshot.own_copies())
            # Data first: a sampler refers to the dataset too, which must already be done then.
            queue.extend(
                (_ObjectPath(step, path), content, DatasetSnapshot) for step, content in snapshot.dataset_contents()
            )
            for step, content in snapshot.contents():
                if (content_type := self._snapshot_type(type(content))) is not None and id(
                    content
                ) not in self._visited:
                    queue.append((_ObjectPath(step, path), content, content_type))

    def _snapshot_type(self, cls: type) -> type[Snapshot] | None:
        if cls not in self._snapshot_types:
            self._snapshot_types[cls] = _snapshot_type_for(cls)
        return self._snapshot_types[cls]


def _snapshot_type_for(cls: type) -> type[Snapshot] | None:
    for bases, snapshot_type in _SNAPSHOT_TYPES:
        if issubclass(cls, bases):
            return snapshot_type
    if cls.__dictoffset__ and not is_leaf_type(cls):
        return ObjectSnapshot
    if hasattr(cls, "state_dict") and hasattr(cls, "load_state_dict"):
        return StateDictSnapshot
    return None if is_leaf_type(cls) else ObjectSnapshot


def _take_snapshot_of(snapshot_type: type[Snapshot], path: _ObjectPath, original: Any) -> Snapshot:
    try:
        return snapshot_type(original)
    except Exception as error:
        type_name = type(original).__name__
        raise SetupError(f"{path} is a {type_name} that cannot be copied ({error}); expected a copyable object. "
                         "Remove it from the object during the check.") from error  # fmt: skip
