"""Data loaders and datasets: their generators, positions and attributes are kept, their data never."""

from __future__ import annotations

from typing import Any

from nbdebug.preserve.kept import Inside, Kept
from nbdebug.preserve.leaves import is_leaf
from nbdebug.preserve.objects import KeptObject
from nbdebug.preserve.random_state import GENERATORS

_DATA = ("dataset", "collate_fn")
_MOST_PARTS = 100  # a longer list is samples, not parts of a dataset


class KeptLoader(KeptObject):
    """A DataLoader. An iterator with living workers is set aside, so that the block starts workers of its own."""

    def inside(self) -> Inside:
        """Generator and samplers."""
        yield from ((name, value) for name, value in super().inside() if name[1:] not in _DATA)

    def data_inside(self) -> Inside:
        """Dataset and collate function."""
        yield from ((name, value) for name, value in super().inside() if name[1:] in _DATA)

    def set_aside(self) -> None:
        """Leave the loader without an iterator."""
        if vars(self.thing).get("_iterator") is not None:
            vars(self.thing)["_iterator"] = None


class KeptData(Kept):
    """A dataset or a part of one: generators in full, attributes by reference, contents not at all."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self.attributes = None if _is_parts(thing) or is_leaf(type(thing)) else KeptObject(thing)

    def inside(self) -> Inside:
        """Random generators."""
        yield from ((name, part) for name, part in self._parts() if isinstance(part, GENERATORS))

    def data_inside(self) -> Inside:
        """Wrapped datasets, transforms and short lists of them; no lists inside lists."""
        for name, part in self._parts():
            if not is_leaf(type(part)) or (_is_parts(part) and not _is_parts(self.thing)):
                yield name, part

    def restore(self) -> None:
        """Put the attributes back."""
        if self.attributes is not None:
            self.attributes.restore()

    def _parts(self) -> Inside:
        if self.attributes is not None:
            yield from self.attributes.inside()
        elif _is_parts(self.thing):
            values = self.thing.values() if isinstance(self.thing, dict) else self.thing
            yield from ((f"[{index}]", value) for index, value in enumerate(values))


def _is_parts(thing: Any) -> bool:
    return type(thing) in (list, tuple, dict) and len(thing) <= _MOST_PARTS
