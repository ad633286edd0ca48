"""How often something may be done that takes time: as often as it has paid for."""

from __future__ import annotations


class Pace:
    """After each time it rests for so long that it takes no more than a share of the time."""

    def __init__(self, share: float) -> None:
        self.share, self.again = share, 0.0

    def due(self, now: float) -> bool:
        """Whether it has paid for the last time; ``now`` is in seconds of a clock."""
        return now >= self.again

    def took(self, seconds: float, now: float) -> None:
        """It was done just now."""
        self.again = now + seconds * (1 / self.share - 1)
