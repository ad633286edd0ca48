"""Sets with a chosen order of iteration, and hashes that do not depend on the process."""

from __future__ import annotations

import builtins
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from nbdebug.tools.repeatable.patches import LineLog


class _SetLike(type):
    """The type of sets that stand for the builtin ones in ``isinstance``."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (builtins.set, builtins.frozenset))


class ForwardSet(set[Any], metaclass=_SetLike):
    """A set that iterates in the order of insertion."""

    log: ClassVar[LineLog]

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self.order = dict.fromkeys(items)
        super().__init__(self.order)

    def __iter__(self) -> Iterator[Any]:
        type(self).log.add(sys._getframe(1))
        return iter(self.ordered())

    def ordered(self) -> list[Any]:
        """Return the items in the order of iteration."""
        present = [item for item in self.order if item in self]
        return [*present, *(item for item in set.__iter__(self) if item not in self.order)]

    def __reduce__(self) -> Any:
        return type(self), (list(self.order),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(set.__iter__(self)))

    def add(self, item: Any) -> None:
        """Add an item at the end."""
        self.order[item] = None
        super().add(item)

    def update(self, *others: Iterable[Any]) -> None:
        """Add items at the end."""
        for other in others:
            for item in other:
                self.add(item)

    def pop(self) -> Any:
        """Remove and return the first item of the order."""
        item = next(iter(self.ordered()))
        self.discard(item)
        return item

    def copy(self) -> Any:
        """Return a copy in the same order."""
        return type(self)(item for item in self.order if item in self)

    def union(self, *others: Iterable[Any]) -> Any:
        """Return the union, in the order of insertion."""
        result = self.copy()
        result.update(*others)
        return result

    def intersection(self, *others: Iterable[Any]) -> Any:
        """Return the common items, in the order of this set."""
        common = set(self.order).intersection(*others)
        return type(self)(item for item in self.order if item in self and item in common)

    def difference(self, *others: Iterable[Any]) -> Any:
        """Return the other items, in the order of this set."""
        rest = set(set.__iter__(self)).difference(*others)
        return type(self)(item for item in self.order if item in rest)

    def __or__(self, other: Any) -> Any:
        return self.union(other)

    def __and__(self, other: Any) -> Any:
        return self.intersection(other)

    def __sub__(self, other: Any) -> Any:
        return self.difference(other)


class ReversedSet(ForwardSet):
    """A set that iterates in reverse, and in no order in which it was filled."""

    def ordered(self) -> list[Any]:
        """Return the items in reverse."""
        return super().ordered()[::-1]


def stable_hash(value: Any, is_salted: bool) -> int:
    """Return a hash that is the same in each process; of a text, another one if ``is_salted``."""
    if isinstance(value, (str, bytes)):
        data = value.encode() if isinstance(value, str) else value
        return zlib.crc32(data, 12345 if is_salted else 0)
    return hash(value)
