"""Where a loop waits for its device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nbdebug.graph.source import Line, caller
from nbdebug.probes.syncs import Sync


@dataclass(frozen=True)
class Waits:
    """The steps that were looked at on an accelerator, and the calls in them that waited for it, by line.

    ``seconds`` is what they took together.
    """

    known: int = 0
    lines: dict[Line, int] = field(default_factory=dict)
    seconds: float = 0.0


class Waiting:
    """Counts the calls."""

    def __init__(self) -> None:
        self.known, self.seconds = 0, 0.0
        self.lines: Counter[Line] = Counter()

    def heard(self, sync: Sync) -> None:
        """A value was fetched."""
        frame, seconds = sync
        if line := caller(frame):
            self.lines[line] += 1
            self.seconds += seconds

    def seen(self) -> Waits:
        """All that was counted."""
        return Waits(self.known, dict(self.lines), self.seconds)
