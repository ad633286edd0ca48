"""The search: sizes double until memory, data or time end."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from nbdebug.setup.users_code import users_code
from nbdebug.tools.batch_size import memory
from nbdebug.tools.batch_size.result import Ended, Size
from nbdebug.tools.batch_size.step import FEWEST, Steps
from nbdebug.tools.batch_size.supply import Supply

SHARE = 0.8  # of the memory that is left: on the CPU nothing catches what goes beyond all of it


class Search:
    """Sizes measured one by one, smallest first; where the first does not fit, downwards to the first that does."""

    def __init__(self, steps: Steps, supply: Supply, start: int, most: int | None, until: float) -> None:
        self.steps, self.supply, self.until = steps, supply, until
        self.start, self.most = start, most
        self.memory: dict[int, int] = {}
        self.times: dict[int, list[float]] = {}
        self.ended: Ended | None = None
        self.failed: int | None = None
        self.capacity: int | None = None

    def run(self, seen: Callable[[], bool]) -> None:
        """All sizes; ``seen`` is called after each step and says whether to leave."""
        size = min(self.start, self.most or self.start, self.supply.count or self.start)
        while self.ended is None:
            if self.fits(size) and self.measured(size, seen):
                self.ended = "stopped" if seen() else "memory" if self.failed is not None else self.end(size)
                size = self.after(size)
            else:
                self.failed = size
                self.ended = "memory" if self.times or size == 1 else None
                size //= 2

    def measured(self, size: int, seen: Callable[[], bool]) -> bool:
        """Measures one size; False where memory did not suffice."""
        try:
            with users_code(lambda: f"on a batch of {size}"):
                try:
                    self.measure(size, seen)
                except Exception as error:
                    if not memory.is_out_of_memory(error):
                        raise
                    return False
        finally:
            self.steps.clear()
            memory.free(self.steps.device)
        return True

    def measure(self, size: int, seen: Callable[[], bool]) -> None:
        """The peak, then times; where it is the first step of all one before, which makes the optimizers' state."""
        batch = self.supply.batch(size)
        if not self.times:
            self.steps.step(batch)
        self.memory[size] = self.steps.memory(batch)
        self.times[size] = self.steps.times(batch, seen)

    def again(self, seen: Callable[[], bool]) -> None:
        """More times of all sizes, largest first: what else the machine does comes and goes."""
        for size in sorted(self.times, reverse=True):
            if seen() or time.perf_counter() + FEWEST * median(self.times[size]) > self.until:
                continue
            self.times[size] += self.steps.times(self.supply.batch(size), seen)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """What was measured, smallest first."""
        found = []
        for size, times in sorted(self.times.items()):
            low, middle, high = np.percentile(times, (25, 50, 75)).tolist()
            found.append(Size(size, self.memory[size], middle, low, high, len(times)))
        return tuple(found)

    def fits(self, size: int) -> bool:
        """Whether a size may be tried: on a device that raises when memory ends any, else what is predicted to fit."""
        self.capacity = self.room()
        return self.steps.device.type == "cuda" or self.capacity is None or self.predicted(size) <= self.capacity

    def room(self) -> int | None:
        """The bytes that a step may take, with what lies there between the steps."""
        free = memory.left(self.steps.device)
        if free is None:
            return None
        return memory.size_of(self.steps.held) + (free if self.steps.device.type == "cuda" else int(SHARE * free))

    def predicted(self, size: int) -> int:
        """The peak of a size that was not tried, on the straight line through the last two that were."""
        known = sorted(self.memory.items())
        if len(known) < 2:
            return sum(taken * size // of for of, taken in known)
        (fewer, less), (more, last) = known[-2:]
        return last + (last - less) * (size - more) // (more - fewer)

    def end(self, size: int) -> Ended | None:
        """Why no larger size is to be tried; None where one is."""
        if self.most is not None and size >= self.most:
            return "limit"
        if self.supply.count is not None and size >= self.supply.count:
            return "data"
        to_come = 2 * (FEWEST + 1) * median(self.times[size])
        return "time" if time.perf_counter() + to_come > self.until else None

    def after(self, size: int) -> int:
        """The next size: twice as many samples, or all there are."""
        return min(one for one in (2 * size, self.most, self.supply.count) if one is not None)
