"""Snapshots of containers, objects and scripted modules, and the types that are not traversed."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from operator import is_
from types import BuiltinFunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

Contents = Iterator[tuple[str, Any]]
IMMUTABLE_TYPES: frozenset[type] = frozenset(
    {type(None), bool, int, float, complex, str, bytes, type, range, slice, type(...), MethodType, BuiltinFunctionType,
     torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size}
)  # fmt: skip
_NEVER_TRAVERSED = (type, ModuleType, BaseException)
_ALWAYS_TRAVERSED = (torch.nn.Module, torch.optim.Optimizer, DataLoader, Dataset)
# Only these standard library modules define classes that hold program state.
_TRAVERSED_STDLIB_MODULES = {"abc", "argparse", "builtins", "collections", "contextlib", "functools", "types", "typing"}
# Only these packages of torch define training state; the rest is infrastructure (autograd, compilers, process groups,
# loader workers, profilers).
_TRAVERSED_TORCH_MODULES = (
    "torch.nn", "torch.optim", "torch.amp", "torch.cuda.amp", "torch.ao", "torch.distributions",
    "torch.utils.data.sampler", "torch.utils.data.distributed",
)  # fmt: skip
# Interfaces, loggers and plots, whose state continues to change during a block. This package is among them: its own
# hooks may be registered on a user's module and continue to count.
_EXCLUDED_PACKAGES = {
    "IPython", "PIL", "aim", "comet_ml", "google", "h5py", "ipykernel", "ipywidgets", "matplotlib", "mlflow", "nbdebug",
    "neptune", "numpy", "pandas", "plotly", "ray", "tensorboard", "tensorboardX", "tokenizers", "tornado", "tqdm",
    "traitlets", "triton", "wandb", "zmq",
}  # fmt: skip


class Snapshot:
    """Snapshot of one object. Subclasses copy its state in ``__init__`` and write it back in ``restore``."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def contents(self) -> Contents:
        """Yield the contained objects, each with its access path, such as ``.weight`` or ``[0]``."""
        yield from ()

    def dataset_contents(self) -> Contents:
        """Yield the contained objects that belong to a dataset, whose data is never copied."""
        yield from ()

    def own_copies(self) -> Iterator[Any]:
        """Yield the contained objects of which this snapshot keeps its own copy."""
        yield from ()

    def set_aside(self) -> None:
        """Remove what the block must not touch; called after all snapshots are taken."""

    def restore(self) -> None:
        """Restore the object."""


class ValueSnapshot(Snapshot):
    """Snapshot of a value behind a getter and a setter."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], object]) -> None:
        super().__init__(read())
        self.write = write

    def restore(self) -> None:
        """Restore the value."""
        self.write(self.original)


class SettingSnapshot(ValueSnapshot):
    """Snapshot of a value that is restored only if it differs, since the setter may have side effects."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], object]) -> None:
        super().__init__(read, write)
        self.read = read

    def restore(self) -> None:
        """Restore the value if it differs."""
        if self.read() != self.original:
            super().restore()


def _hold_same_objects(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Check whether two collections of equal length hold the identical objects in the same order."""
    return all(map(is_, first, second))


def is_leaf_type(cls: type) -> bool:
    """Check whether objects of this class are not traversed."""
    if issubclass(cls, _NEVER_TRAVERSED) or cls.__module__ == "builtins":
        return True
    return not issubclass(cls, _ALWAYS_TRAVERSED) and any(_is_infrastructure(base) for base in cls.__mro__)


def _is_infrastructure(cls: Any) -> bool:
    module = str(cls.__module__)
    package = module.partition(".")[0]
    if package == "torch":
        return not module.startswith(_TRAVERSED_TORCH_MODULES)
    return package in _EXCLUDED_PACKAGES or (
        package in sys.stdlib_module_names and package not in _TRAVERSED_STDLIB_MODULES
    )


class ItemsSnapshot(Snapshot):
    """Snapshot of an iterable; a tuple needs only its contents."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.items = tuple(original)

    @property
    def changed(self) -> bool:
        """True if the items or their order have changed."""
        return len(self.items) != len(self.original) or not _hold_same_objects(self.items, self.original)

    def contents(self) -> Contents:
        """The items, and the attributes of a subclass."""
        if not IMMUTABLE_TYPES.issuperset(map(type, self.items)):
            yield from ((f"[{index}]", item) for index, item in enumerate(self.items))
        yield from _subclass_attributes(self.original)


class ListSnapshot(ItemsSnapshot):
    """Snapshot of a list."""

    def restore(self) -> None:
        """Restore the items in place."""
        if self.changed:
            list.__setitem__(self.original, slice(None), self.items)


class DequeSnapshot(ItemsSnapshot):
    """Snapshot of a deque."""

    def restore(self) -> None:
        """Restore the items in place."""
        if self.changed:
            deque.clear(self.original)
            deque.extend(self.original, self.items)


class SetSnapshot(ItemsSnapshot):
    """Snapshot of a set; a copied set keeps the iteration order of colliding hashes, single insertions do not."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.copy = set(original)

    def restore(self) -> None:
        """Restore the items in place."""
        if self.changed:
            set.clear(self.original)
            set.update(self.original, self.copy)


class BytesSnapshot(Snapshot):
    """Snapshot of a bytearray or ``array.array``."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.copy = original[:]

    def restore(self) -> None:
        """Restore the bytes in place."""
        self.original[:] = self.copy


class DictSnapshot(Snapshot):
    """Snapshot of a dict. An OrderedDict stores its order separately, so its own methods must be used."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.dict_type: Any = OrderedDict if isinstance(original, OrderedDict) else dict
        self.keys = tuple(self.dict_type.keys(original))
        self.values = tuple(self.dict_type.values(original))
        self.default_factory = original.default_factory if isinstance(original, defaultdict) else None

    def contents(self) -> Contents:
        """The values and the attributes of a subclass."""
        for key, value in zip(self.keys, self.values, strict=True):
            if type(value) not in IMMUTABLE_TYPES:
                yield f"[{key!r}]" if isinstance(key, (str, int)) else f"[{type(key).__name__}]", value
        yield from _subclass_attributes(self.original)

    def restore(self) -> None:
        """Restore the items in place and in order."""
        if self.default_factory is not None:
            self.original.default_factory = self.default_factory
        if len(self.original) == len(self.keys) and self._unchanged():
            return
        self.dict_type.clear(self.original)
        for key, value in zip(self.keys, self.values, strict=True):
            self.dict_type.__setitem__(self.original, key, value)

    def _unchanged(self) -> bool:
        return _hold_same_objects(self.keys, self.dict_type.keys(self.original)) and _hold_same_objects(
            self.values, self.dict_type.values(self.original)
        )


class ArraySnapshot(Snapshot):
    """Snapshot of a writable numpy array. A memory-mapped array is data and is not copied."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        writable = original.flags.writeable and not isinstance(original, np.memmap)
        self.copy = original.copy(order="K") if writable else None

    def restore(self) -> None:
        """Restore the values in place."""
        if self.copy is not None:
            np.copyto(self.original, self.copy)


def _subclass_attributes(original: Any) -> Contents:
    """Yield the attribute dict of an instance of a subclass of a Python container."""
    if type(original).__dictoffset__ and type(original).__module__ not in ("builtins", "collections"):
        yield "", vars(original)


def take_store_snapshot(store: Any) -> Snapshot:
    """Return a snapshot of what a list or a dictionary holds, by reference."""
    return ListSnapshot(store) if isinstance(store, list) else DictSnapshot(store)


class ObjectSnapshot(Snapshot):
    """Snapshot of an object's class, ``__dict__`` and slots: a module, an optimizer, a scheduler or another object."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.original_class = type(original)
        self.original_dict = _attribute_dict(original)
        self.attributes = DictSnapshot({} if self.original_dict is None else self.original_dict)
        self.empty_dicts = [value for value in self.attributes.values if _is_empty_dict(value)]
        self.slots = _filled_slots(original)

    def contents(self) -> Contents:
        """The values of the attributes."""
        for name, value in zip(self.attributes.keys, self.attributes.values, strict=True):
            if not _is_empty_dict(value):
                yield f".{name}", value
        yield from ((f".{slot.__name__}", value) for slot, value in self.slots)

    def restore(self) -> None:
        """Restore the class (lazy and parametrized modules change it), the dict, its items and the slots."""
        if type(self.original) is not self.original_class:
            object.__setattr__(self.original, "__class__", self.original_class)
        if self.original_dict is not None and _attribute_dict(self.original) is not self.original_dict:
            object.__setattr__(self.original, "__dict__", self.original_dict)
        self.attributes.restore()
        for empty_dict in self.empty_dicts:
            empty_dict.clear()
        for slot, value in self.slots:
            slot.__set__(self.original, value)


def _is_empty_dict(value: Any) -> bool:
    """Check whether a value is an empty dict, as most hook dicts of modules are."""
    return type(value) in (dict, OrderedDict) and not value


class ScriptModuleSnapshot(ObjectSnapshot):
    """Snapshot of a scripted module, whose parameters, buffers, mode and counters are in C++ behind ``_c``."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        names = torch._C.ConcreteModuleType.from_jit_type(original._c._type()).get_attributes()  # type: ignore[attr-defined]
        self.values = {name: original._c.getattr(name) for name in names}

    def contents(self) -> Contents:
        """Parameters, buffers and child modules."""
        yield from super().contents()
        yield from ((f".{name}", value) for name, value in _direct_tensors(self.original))
        yield from ((f".{name}", child) for name, child in self.original.named_children())

    def restore(self) -> None:
        """Restore the values through C++."""
        super().restore()
        for name, value in self.values.items():
            self.original._c.setattr(name, value)


class StateDictSnapshot(Snapshot):
    """Snapshot of an object without readable attributes, by a deep copy of its ``state_dict``."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.state_dict = deepcopy(original.state_dict())

    def restore(self) -> None:
        """Load the copy."""
        self.original.load_state_dict(self.state_dict)


def _attribute_dict(original: Any) -> dict[str, Any] | None:
    """Return the object's ``__dict__``; None if it has none or a property hides it."""
    with suppress(Exception):
        attributes = vars(original)
        return attributes if type(attributes) is dict else None
    return None


def _direct_tensors(module: Any) -> Contents:
    """Yield the parameters and buffers of a module without its children."""
    yield from module.named_parameters(recurse=False)
    yield from module.named_buffers(recurse=False)


def _filled_slots(original: Any) -> list[tuple[MemberDescriptorType, Any]]:
    """Return the filled slots; their descriptors can write to frozen dataclasses and past properties."""
    slots = []
    for cls in type(original).__mro__:
        for slot in vars(cls).values() if "__slots__" in vars(cls) else ():
            if isinstance(slot, MemberDescriptorType):
                with suppress(AttributeError):
                    slots.append((slot, slot.__get__(original)))
    return slots
