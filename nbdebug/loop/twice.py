"""Parameters that two optimizers move by the same gradient."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nbdebug.loop.interval import Stepper


@dataclass(frozen=True)
class Twice:
    """Of all ``steps``, those ``again`` that moved parameters a second time by one gradient; their identities."""

    steps: int = 0
    again: int = 0
    shared: frozenset[int] = frozenset()


class Doubling:
    """Counts the steps. One inside another is of an optimizer that wraps another one, and counts once."""

    def __init__(self) -> None:
        self.steps = self.again = 0
        self.shared: set[int] = set()
        self.since: list[Stepper] = []
        self.under_way: list[Stepper] = []
        self.held: dict[int, frozenset[int]] = {}

    def adopts(self, stepper: Stepper) -> None:
        """An optimizer is followed."""
        self.held[id(stepper)] = frozenset(id(p) for p in stepper.parameters)

    def backward(self) -> None:
        """There are new gradients."""
        self.since.clear()

    def begins(self, stepper: Stepper) -> None:
        """A step begins."""
        self.under_way.append(stepper)

    def done(self, stepper: Stepper) -> None:
        """A step is done."""
        if stepper in self.under_way:
            self.under_way.remove(stepper)
        if self.under_way or len(self.held) < 2:
            return
        self.steps += 1
        both = self.held[id(stepper)] & union(self.held[id(one)] for one in self.since if one is not stepper)
        self.again += bool(both)
        self.shared |= both
        self.since.append(stepper)

    def seen(self) -> Twice:
        """All that was counted."""
        return Twice(self.steps, self.again, frozenset(self.shared))


def union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    """What is in any of some sets."""
    return frozenset().union(*sets)
