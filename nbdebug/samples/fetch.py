"""Samples out of a data set, without a trace of it: random state, generators and attributes stay what they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nbdebug.preserve import Preserve, seed_all
from nbdebug.preserve.random_state import KeptGenerator
from nbdebug.preserve.walk import Walk

SEED = 0x5EED


def fetched(source: Any, places: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """The samples at ``places``, each with its place; an exception stands for the sample that it was raised for.

    Random augmentation comes out the same each time: random state is set by the place. To be used up at once, as the
    user's random state is set aside meanwhile.
    """
    places = list(places)
    if not places:
        return
    walk = Walk()
    with Preserve(loaders=(source,)):
        walk.keep_loader(source)
        generators = [kept for _, kept in walk.kept if isinstance(kept, KeptGenerator)]
        for place in places:
            seed_all(SEED + int(place))
            for one in generators:
                one.restore()
            try:
                found = at(source, int(place))
            except Exception as error:
                found = error
            yield place, found


def at(source: Any, place: int) -> Any:
    """One sample of a data set, a sequence, an array, or a frame."""
    if hasattr(source, "iloc"):
        return source.iloc[place]
    return source[place]


def spread(length: int, most: int) -> list[int]:
    """At most ``most`` places, evenly over a data set of this length."""
    count = min(length, most)
    return sorted({(2 * one + 1) * length // (2 * count) for one in range(count)})
