"""Objects that hold their state in attributes, scripted modules, and objects known only by their ``state_dict``."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from copy import deepcopy
from types import MemberDescriptorType
from typing import Any

import torch

from nbdebug.preserve.containers import KeptDict
from nbdebug.preserve.kept import Inside, Kept


class KeptObject(Kept):
    """Any object by its class, its ``__dict__`` and its slots: a module, an optimizer, a scheduler, a plain object."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.kind = type(thing)
        self.own = _attributes(thing)
        self.attributes = KeptDict({} if self.own is None else self.own)
        self.empty = [one for one in self.attributes.values if is_empty(one)]
        self.slots = _slots(thing)

    def inside(self) -> Inside:
        """The values of the attributes."""
        for name, value in zip(self.attributes.keys, self.attributes.values, strict=True):
            if not is_empty(value):
                yield f".{name}", value
        yield from ((f".{slot.__name__}", value) for slot, value in self.slots)

    def restore(self) -> None:
        """Put back the class (lazy and parametrized modules change it), the very dict, its items, the slots."""
        if type(self.thing) is not self.kind:
            object.__setattr__(self.thing, "__class__", self.kind)
        if self.own is not None and _attributes(self.thing) is not self.own:
            object.__setattr__(self.thing, "__dict__", self.own)
        self.attributes.restore()
        for one in self.empty:
            one.clear()
        for slot, value in self.slots:
            slot.__set__(self.thing, value)


def is_empty(value: Any) -> bool:
    """Whether a value is a dict with nothing in it, as most of those are that a module keeps its hooks in."""
    return type(value) in (dict, OrderedDict) and not value


class KeptScript(KeptObject):
    """A scripted module: its parameters, buffers, mode and counters live in C++ behind ``_c``."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        names = torch._C.ConcreteModuleType.from_jit_type(thing._c._type()).get_attributes()  # type: ignore[attr-defined]
        self.values = {name: thing._c.getattr(name) for name in names}

    def inside(self) -> Inside:
        """Parameters, buffers and child modules."""
        yield from super().inside()
        yield from ((f".{name}", value) for name, value in _own_tensors(self.thing))
        yield from ((f".{name}", child) for name, child in self.thing.named_children())

    def restore(self) -> None:
        """Put the values back through C++."""
        super().restore()
        for name, value in self.values.items():
            self.thing._c.setattr(name, value)


class KeptState(Kept):
    """An object without attributes to read, by a deep copy of its ``state_dict``."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.state = deepcopy(thing.state_dict())

    def restore(self) -> None:
        """Load the copy."""
        self.thing.load_state_dict(self.state)


def _attributes(thing: Any) -> dict[str, Any] | None:
    """The object's own ``__dict__``; None where there is none or a property hides it."""
    with suppress(Exception):
        found = vars(thing)
        return found if type(found) is dict else None
    return None


def _own_tensors(module: Any) -> Inside:
    """The parameters and buffers that belong to this module itself."""
    yield from module.named_parameters(recurse=False)
    yield from module.named_buffers(recurse=False)


def _slots(thing: Any) -> list[tuple[MemberDescriptorType, Any]]:
    """The filled slots: the descriptors write past frozen dataclasses and properties."""
    found = []
    for base in type(thing).__mro__:
        for slot in vars(base).values() if "__slots__" in vars(base) else ():
            if isinstance(slot, MemberDescriptorType):
                with suppress(AttributeError):
                    found.append((slot, slot.__get__(thing)))
    return found
