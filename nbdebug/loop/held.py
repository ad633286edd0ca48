"""How many graphs of steps that are over are still alive."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.setup.trees import tensors

RECENT, KEY = 64, "nbdebug"


@dataclass(frozen=True)
class Held:
    """Of the graphs of some steps that are over (``among``), the most that were alive at once (``alive``)."""

    alive: int = 0
    among: int = 0


class Sentinel:
    """An object that lives in the metadata of a graph, and so exactly as long as the graph does."""

    __slots__ = ("__weakref__",)


class Holding:
    """Marks the graphs of the latest passes, and counts those that live on."""

    def __init__(self) -> None:
        self.marks: deque[tuple[int, weakref.ref[Sentinel]]] = deque(maxlen=RECENT)
        self.worst = Held()

    def mark(self, output: Any, step: int) -> None:
        """Marks the graph behind a loss or an output, if there is one, with the number of the step."""
        found = (output,) if isinstance(output, Tensor) else tensors(output)
        function = next((one.grad_fn for one in found if one.grad_fn is not None), None)
        if function is not None:
            sentinel = Sentinel()
            metadata: Any = function.metadata
            metadata[KEY] = sentinel
            self.marks.append((step, weakref.ref(sentinel)))

    def look(self, step: int) -> None:
        """Counts the graphs that are alive though the step after theirs is over too."""
        over = [mark for at, mark in self.marks if at < step - 1]
        alive = sum(mark() is not None for mark in over)
        if alive > self.worst.alive:
            self.worst = Held(alive, len(over))
