"""The healthy programs of this folder by name; each builds a debugger and the user's own training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nbdebug.debugger import Debugger

TrainingLoop = Callable[[], object]
ProgramBuilder = Callable[[], tuple[Debugger, TrainingLoop]]
PROGRAMS: dict[str, ProgramBuilder] = {}


def unusual(build: ProgramBuilder) -> ProgramBuilder:
    """Register a program under the name of its function."""
    PROGRAMS[build.__name__.replace("_", " ")] = build
    return build


def batches(loader: Any, epochs: int) -> Iterator[Any]:
    """Iterate over the batches of several epochs."""
    for _ in range(epochs):
        yield from loader
