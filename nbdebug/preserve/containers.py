"""Python's mutable containers: the same object, the same items in the same order."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from nbdebug.preserve.kept import Inside, Kept, same
from nbdebug.preserve.leaves import ATOMS


class KeptItems(Kept):
    """An iterable of items; a tuple needs no more than being looked into."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.items = tuple(thing)

    @property
    def changed(self) -> bool:
        """Whether it holds other items now, or in another order."""
        return len(self.items) != len(self.thing) or not same(self.items, self.thing)

    def inside(self) -> Inside:
        """The items, and the attributes of a subclass."""
        if not ATOMS.issuperset(map(type, self.items)):
            yield from ((f"[{index}]", item) for index, item in enumerate(self.items))
        yield from own_attributes(self.thing)


class KeptList(KeptItems):
    """A list."""

    def restore(self) -> None:
        """Put the items back in place."""
        if self.changed:
            list.__setitem__(self.thing, slice(None), self.items)


class KeptDeque(KeptItems):
    """A deque."""

    def restore(self) -> None:
        """Put the items back in place."""
        if self.changed:
            deque.clear(self.thing)
            deque.extend(self.thing, self.items)


class KeptSet(KeptItems):
    """A set. Items put back one by one could come in another order where their hashes collide; a copy has theirs."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.copy = set(thing)

    def restore(self) -> None:
        """Put the items back in place."""
        if self.changed:
            set.clear(self.thing)
            set.update(self.thing, self.copy)


class KeptBytes(Kept):
    """A bytearray or ``array.array``."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.copy = thing[:]

    def restore(self) -> None:
        """Put the bytes back in place."""
        self.thing[:] = self.copy


class KeptDict(Kept):
    """A dict of any kind. An OrderedDict keeps its own order beside the dict's, so its own methods must be used."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.base: Any = OrderedDict if isinstance(thing, OrderedDict) else dict
        self.keys = tuple(self.base.keys(thing))
        self.values = tuple(self.base.values(thing))
        self.factory = thing.default_factory if isinstance(thing, defaultdict) else None

    def inside(self) -> Inside:
        """The values and the attributes of a subclass."""
        for key, value in zip(self.keys, self.values, strict=True):
            if type(value) not in ATOMS:
                yield f"[{key!r}]" if isinstance(key, (str, int)) else f"[{type(key).__name__}]", value
        yield from own_attributes(self.thing)

    def restore(self) -> None:
        """Put the items back in place and in order."""
        if self.factory is not None:
            self.thing.default_factory = self.factory
        if len(self.thing) == len(self.keys) and self._unchanged():
            return
        self.base.clear(self.thing)
        for key, value in zip(self.keys, self.values, strict=True):
            self.base.__setitem__(self.thing, key, value)

    def _unchanged(self) -> bool:
        return same(self.keys, self.base.keys(self.thing)) and same(self.values, self.base.values(self.thing))


class KeptArray(Kept):
    """A numpy array that can be written. A memory-mapped one is data and stays as it is."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        writable = thing.flags.writeable and not isinstance(thing, np.memmap)
        self.copy = thing.copy(order="K") if writable else None

    def restore(self) -> None:
        """Put the values back in place."""
        if self.copy is not None:
            np.copyto(self.thing, self.copy)


def own_attributes(thing: Any) -> Inside:
    """The attribute dict of a container whose class is a subclass of Python's own."""
    if type(thing).__dictoffset__ and type(thing).__module__ not in ("builtins", "collections"):
        yield "", vars(thing)
