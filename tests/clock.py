"""The clock by which the product measures time in tests: what it does now and then, it does at the same step anywhere.

By a real one it would look, measure and give up earlier or later as the machine is busy.
"""

from __future__ import annotations

from dataclasses import dataclass

TICK = 2.0**-15  # some 30 µs; sums of it are exact


@dataclass
class Clock:
    """Seconds that go by in equal ticks, one at each look, and as many as a test lets pass."""

    now: float = 0.0
    tick: float = 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def passes(self, seconds: float) -> None:
        """That much time goes by."""
        self.now += seconds


CLOCK = Clock(tick=TICK)
