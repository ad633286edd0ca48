"""How often something may be done that takes time: as often as it has paid for."""

from __future__ import annotations


class Pace:
    """After each time it rests for so long that it takes no more than a share of the time, or a ``part`` of that share.

    It may be done when a clock, in seconds, says ``again``.
    """

    def __init__(self, share: float) -> None:
        self.share, self.part, self.again = share, 1.0, 0.0

    def took(self, seconds: float, now: float) -> None:
        """It was done just now."""
        self.again = now
        self.owes(seconds)

    def owes(self, seconds: float) -> None:
        """It has taken more time than was known when it was done."""
        self.again += seconds * (1 / (self.part * self.share) - 1)
