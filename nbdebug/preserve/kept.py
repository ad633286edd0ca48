"""What is remembered of one thing: how to put it back, and what else lies inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import is_
from typing import Any

Inside = Iterator[tuple[str, Any]]


class Kept:
    """One thing as it was. Subclasses copy what they must in ``__init__`` and write it back in ``restore``."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def inside(self) -> Inside:
        """The things inside, each with the text that leads to it, such as ``.weight`` or ``[0]``."""
        yield from ()

    def data_inside(self) -> Inside:
        """The things inside that belong to a dataset, whose contents are never copied."""
        yield from ()

    def claimed(self) -> Iterator[Any]:
        """The things inside that this keeps itself."""
        yield from ()

    def set_aside(self) -> None:
        """Take away what the block must not touch; called when everything has been kept."""

    def restore(self) -> None:
        """Make the thing what it was."""


class KeptValue(Kept):
    """A value that lies behind a pair of functions."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], object]) -> None:
        super().__init__(read())
        self.write = write

    def restore(self) -> None:
        """Write the value back."""
        self.write(self.thing)


class KeptSetting(KeptValue):
    """A value that is written back only when it differs, since writing may have effects of its own."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], object]) -> None:
        super().__init__(read, write)
        self.read = read

    def restore(self) -> None:
        """Write the value back if it is another one now."""
        if self.read() != self.thing:
            super().restore()


def same(before: Iterable[Any], now: Iterable[Any]) -> bool:
    """Whether two collections of equal length hold the very same objects in the same order."""
    return all(map(is_, before, now))
