"""A tripwire that knows from where in the package each moment was reached, so that every way there can be cut short."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from traceback import walk_stack
from typing import Any, ClassVar

import nbdebug
from tests.preserve.tripwire import Tripwire

PACKAGE = str(Path(nbdebug.__file__).parent)


class Wire(Tripwire):
    """A tripwire that a copy of the model shares.

    It counts in its class, since what it holds itself is put back with the rest of the program. A place is what ran,
    the line of torch that called the hook, and all lines of the package that led to it.
    """

    trap: tuple[int, Callable[[], Any]] = (-1, int)
    places: ClassVar[list[Any]] = []

    def __call__(self, *given: Any) -> None:
        _, caller, *rest = ((frame.f_code.co_filename, line) for frame, line in walk_stack(None))
        led = [line for line in rest if line[0].startswith(PACKAGE)]
        Wire.places.append((type(given[0]).__name__, caller, *led))
        at, act = Wire.trap
        if len(Wire.places) - 1 == at:
            act()

    def __deepcopy__(self, _: Any) -> Wire:
        return self


def watched(run: Callable[[], Any], at: int = -1, act: Callable[[], Any] = int) -> list[Any]:
    """The places of all moments of a run that is cut short at the moment ``at``."""
    Wire.trap, Wire.places = (at, act), []
    try:
        run()
    except (ValueError, KeyboardInterrupt):
        if at < 0:
            raise
    return Wire.places


def first(places: list[Any], but: Collection[Any] = ()) -> list[int]:
    """The moment at which each place was reached first, except those in ``but``."""
    found = {place: len(places) - 1 - moment for moment, place in enumerate(reversed(places))}
    return sorted(moment for place, moment in found.items() if place not in but)


def last(places: list[Any], but: Collection[Any] = ()) -> list[int]:
    """The moment at which each place was reached last, except those in ``but``."""
    found = {place: moment for moment, place in enumerate(places)}
    return sorted(moment for place, moment in found.items() if place not in but)
