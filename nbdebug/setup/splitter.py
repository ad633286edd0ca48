"""Splits one batch after the other: what was guessed of the first one holds for all that are built like it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from nbdebug.setup import unpack
from nbdebug.setup.batch import Batch
from nbdebug.setup.training import Setup

PLAIN = {Tensor}


class Places(NamedTuple):
    """Under which keys of a raw batch the parts of a split one lie: arguments, named ones, then targets."""

    keys: tuple[Any, ...]
    args: int
    names: tuple[str, ...]


class Splitter:
    """Gives ``setup.split(raw)``, at a fraction of its cost for tuples, lists and mappings of plain tensors."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.home, self.guesses = setup, setup.home, setup.unpack is None
        self.known: dict[Hashable, Places | None] = {}

    def __call__(self, raw: Any) -> Batch:
        """The inputs and targets of a raw batch, on the model's device."""
        form = form_of(raw) if self.guesses else None
        places = self.known.get(form)
        if places is None:
            return self.split(raw, form)
        keys, first, names = places
        home = self.home
        parts = [one if (one := raw[key]).device == home else one.to(home) for key in keys]
        last = first + len(names)
        named = dict(zip(names, parts[first:last], strict=True)) if names else {}
        return Batch(tuple(parts[:first]), named, tuple(parts[last:]), raw=raw)

    def split(self, raw: Any, form: Hashable) -> Batch:
        """The same by the set-up itself, after which batches of this form are known."""
        batch = self.setup.split(raw)
        if form is not None and form not in self.known:
            self.known[form] = self.places(raw)
        return batch

    def places(self, raw: Any) -> Places | None:
        """Where the parts came from; None where a part is not one of the tensors of the raw batch as it stands."""
        guess = unpack.guess(raw, self.setup.eager, self.setup.loss_fn)
        keys = {id(value): key for key, value in items(raw)}
        parts = [*guess.args, *guess.kwargs.values(), *guess.targets]
        if len(keys) < len(raw) or any(id(one) not in keys for one in parts):
            return None
        return Places(tuple(keys[id(one)] for one in parts), len(guess.args), tuple(guess.kwargs))


def form_of(raw: Any) -> Hashable | None:
    """What tells batches apart that are split in different ways; None for all but containers of plain tensors."""
    if isinstance(raw, (tuple, list)) and not hasattr(raw, "_fields"):
        return len(raw) if PLAIN.issuperset(map(type, raw)) and raw else None
    if isinstance(raw, Mapping):
        return tuple(raw) if PLAIN.issuperset(map(type, raw.values())) and raw else None
    return None


def items(raw: Any) -> list[tuple[Any, Any]]:
    """Keys and values of a mapping, places and values of a list."""
    return list(raw.items()) if isinstance(raw, Mapping) else list(enumerate(raw))
