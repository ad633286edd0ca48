"""A few of many: every one at first, then every second, every fourth."""

from __future__ import annotations

from typing import Generic, TypeVar

Item = TypeVar("Item")
MOST = 256


class Few(Generic[Item]):
    """Evenly spread items of a stream, at most 256 of them, however long it is."""

    def __init__(self) -> None:
        self.kept: list[Item] = []
        self.seen, self.stride = 0, 1

    def add(self, item: Item) -> None:
        """Keeps the item if it is its turn."""
        if self.seen % self.stride == 0:
            self.kept.append(item)
            if len(self.kept) >= MOST:
                del self.kept[1::2]
                self.stride *= 2
        self.seen += 1
