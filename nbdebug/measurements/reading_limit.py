"""How many samples a measurement reads, so that its verdict does not depend on the load of the machine."""

from __future__ import annotations

import time

PATIENCE = 8.0  # times the seconds of a measurement in which it must have read its minimum


class ReadingLimit:
    """Ends the reading of samples after ``seconds``, but only after ``minimum`` times a power of two samples.

    A change of the load of the machine then rarely changes the number of samples, and never below the minimum. If the
    minimum takes more than eight times the seconds, reading ends earlier, and the measurement must say so. The waits
    for files count, so this is not processor time.
    """

    def __init__(self, seconds: float, minimum: int) -> None:
        self.seconds, self.minimum = seconds, max(minimum, 1)
        self.started = time.perf_counter()

    def ends_after(self, count: int) -> bool:
        """Return whether reading ends after this number of samples."""
        return self.ends_within(count - 1, count)

    def ends_within(self, earlier: int, count: int) -> bool:
        """Return whether reading ends after a batch that raised the number of samples from ``earlier``."""
        elapsed = time.perf_counter() - self.started
        if count < self.minimum:
            return count > 1 and elapsed > PATIENCE * self.seconds
        step = self.minimum << ((count // self.minimum).bit_length() - 1)
        return elapsed > self.seconds and step > earlier

    def reason(self, count: int, size: int) -> str:
        """Return why only ``count`` of ``size`` samples were read."""
        return (
            f"only {count} of {size} samples could be read within {PATIENCE * self.seconds:.2g} s; {self.minimum} are "
            "needed"
        )
