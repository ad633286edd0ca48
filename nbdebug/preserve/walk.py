"""The walk over everything that can be reached from a training set-up, each thing kept once."""

from __future__ import annotations

from array import array
from collections import deque
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from nbdebug.exceptions import SetupError
from nbdebug.preserve.containers import KeptArray, KeptBytes, KeptDeque, KeptDict, KeptItems, KeptList, KeptSet
from nbdebug.preserve.kept import Kept
from nbdebug.preserve.leaves import ATOMS, is_leaf
from nbdebug.preserve.loaders import KeptData, KeptLoader
from nbdebug.preserve.objects import KeptObject, KeptScript, KeptState
from nbdebug.preserve.optimizers import KeptOptimizer
from nbdebug.preserve.random_state import GENERATORS, KeptGenerator
from nbdebug.preserve.tensors import KeptTensor

_KINDS: tuple[tuple[tuple[type, ...], type[Kept]], ...] = (
    ((torch.Tensor,), KeptTensor),
    ((torch.jit.ScriptModule,), KeptScript),
    ((torch.optim.Optimizer,), KeptOptimizer),
    ((DataLoader,), KeptLoader),
    ((Dataset,), KeptData),
    (GENERATORS, KeptGenerator),
    ((dict,), KeptDict),
    ((list,), KeptList),
    ((tuple, frozenset), KeptItems),
    ((set,), KeptSet),
    ((deque,), KeptDeque),
    ((bytearray, array), KeptBytes),
    ((np.ndarray,), KeptArray),
    ((FunctionType,), KeptObject),
)


class Path(NamedTuple):
    """The way to a thing, put into words only when something has gone wrong."""

    step: str
    before: Path | None = None

    def __str__(self) -> str:
        steps: list[str] = []
        path: Path | None = self
        while path is not None:
            steps.append(path.step)
            path = path.before
        return "".join(reversed(steps))


class Walk:
    """What has been kept so far, in the order in which it was found."""

    def __init__(self) -> None:
        self.kept: list[tuple[Path, Kept]] = []
        self._seen: dict[int, Any] = {}
        self._kinds: dict[type, type[Kept] | None] = dict.fromkeys(ATOMS)

    def keep(self, thing: Any) -> None:
        """Keep the thing and all that lies inside it; a bound method stands for its object."""
        if isinstance(thing, MethodType):
            thing = thing.__self__
        self._follow(thing, self._kind(type(thing)))

    def keep_loader(self, loader: Any) -> None:
        """Keep a data loader; one of an unknown kind is data itself."""
        self._follow(loader, KeptLoader if isinstance(loader, DataLoader) else KeptData)

    def _follow(self, root: Any, kind: type[Kept] | None) -> None:
        queue = deque([(Path(type(root).__name__), root, kind)])
        while queue:
            path, thing, kind = queue.popleft()
            if kind is None or id(thing) in self._seen:
                continue
            self._seen[id(thing)] = thing
            kept = _take(kind, path, thing)
            self.kept.append((path, kept))
            self._seen.update((id(inner), inner) for inner in kept.claimed())
            # Data first: a sampler refers to the dataset too, and must then find it done.
            queue.extend((Path(step, path), inner, KeptData) for step, inner in kept.data_inside())
            for step, inner in kept.inside():
                if (inner_kind := self._kind(type(inner))) is not None and id(inner) not in self._seen:
                    queue.append((Path(step, path), inner, inner_kind))

    def _kind(self, cls: type) -> type[Kept] | None:
        if cls not in self._kinds:
            self._kinds[cls] = _kind_of(cls)
        return self._kinds[cls]


def _kind_of(cls: type) -> type[Kept] | None:
    for bases, kind in _KINDS:
        if issubclass(cls, bases):
            return kind
    if cls.__dictoffset__ and not is_leaf(cls):
        return KeptObject
    if hasattr(cls, "state_dict") and hasattr(cls, "load_state_dict"):
        return KeptState
    return None if is_leaf(cls) else KeptObject


def _take(kind: type[Kept], path: Path, thing: Any) -> Kept:
    try:
        return kind(thing)
    except Exception as error:
        found = type(thing).__name__
        raise SetupError(f"{path} is a {found} that cannot be copied ({error}); expected one whose state can be kept. "
                         "Take it off the object for the time of the check.") from error  # fmt: skip
