"""Deterministic replacements of clocks, so that tests do not depend on the load of the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

TICK = 2.0**-15  # some 30 µs; sums of it are exact
_THREAD_TIME = time.thread_time


@dataclass
class Clock:
    """Seconds that advance by ``tick`` at each call and by what a test adds."""

    now: float = 0.0
    tick: float = 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def advance(self, seconds: float) -> None:
        """Add seconds to the time."""
        self.now += seconds


CLOCK = Clock(tick=TICK)
PROCESSOR_CLOCK = Clock(tick=TICK)


@contextmanager
def real_time() -> Iterator[None]:
    """Use the real clocks within the block, for tests with large planted ratios of time."""
    replaced = time.perf_counter, time.thread_time
    time.perf_counter, time.thread_time = time.monotonic, _THREAD_TIME
    try:
        yield
    finally:
        time.perf_counter, time.thread_time = replaced
