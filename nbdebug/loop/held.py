"""How many graphs of steps that are over are still alive."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from nbdebug.setup.trees import tensors

RECENT, KEY = 64, "nbdebug"


@dataclass(frozen=True)
class Held:
    """Of the graphs of some steps that are over (``among``), the most that were alive at once (``alive``).

    ``full`` of those alive were never run backwards through, and so hold all activations.
    """

    alive: int = 0
    among: int = 0
    full: int = 0


class Sentinel:
    """An object that lives in the metadata of a graph, and so exactly as long as the graph does."""

    __slots__ = ("__weakref__",)


@dataclass
class Mark:
    """One graph that is marked, in the step of this number; ``full`` until a backward pass runs through it."""

    step: int
    sentinel: weakref.ref[Sentinel]
    validates: bool = False
    full: bool = True


class Holding:
    """Marks the graphs of the latest passes, and counts those that live on."""

    def __init__(self) -> None:
        self.marks: deque[Mark] = deque(maxlen=RECENT)
        self.worst = Held()

    def mark(self, output: Any, step: int, validates: bool = False) -> None:
        """Marks the graph behind a loss or an output, if there is one, with the number of the step.

        All tensors of an output bear the same mark: a state that is carried on keeps the graph, as an answer does.
        """
        found = (output,) if isinstance(output, Tensor) else tensors(output)
        functions = [one.grad_fn for one in found if one.grad_fn is not None]
        if functions:
            sentinel = Sentinel()
            for function in functions:
                cast(dict[str, Any], function.metadata)[KEY] = sentinel
            self.marks.append(Mark(step, weakref.ref(sentinel), validates))

    def pulled(self, step: int) -> None:
        """A backward pass has run, through the graphs of the passes since the one before; now and then it looks."""
        if step & (step - 1) == 0:
            self.look(step)
        for mark in reversed(self.marks):
            if mark.step != self.marks[-1].step:
                return
            mark.full &= mark.validates

    def look(self, step: int) -> None:
        """Counts the graphs that are alive though the step after theirs is over too."""
        over = [mark for mark in self.marks if mark.step < step - 1]
        alive = [mark for mark in over if mark.sentinel() is not None]
        if len(alive) > self.worst.alive:
            self.worst = Held(len(alive), len(over), sum(mark.full for mark in alive))
