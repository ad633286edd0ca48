"""Whether units still speak: those that were zero in all samples of the last looks, and values pinned at their ends."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

WINDOW = 8  # looks
MOST_VALUES = 16_384
# Past these a sigmoid passes on under an eighth of its steepest gradient, a tanh under a sixteenth.
PINNED = 0.97
BOUNDED: dict[type, tuple[float, float]] = {
    nn.Sigmoid: (1 - PINNED, PINNED),
    nn.Tanh: (-PINNED, PINNED),
    nn.Softmax: (-1.0, PINNED),
    nn.Hardsigmoid: (1 - PINNED, PINNED),
    nn.Hardtanh: (-PINNED, PINNED),
}


def channel_axis(output: Tensor) -> int:
    """The axis of the units: the second of pictures, the last of everything else."""
    return 1 if output.dim() in (4, 5) else output.dim() - 1


def live_units(output: Tensor) -> Tensor:
    """Which units of an output are not zero for some sample, looking at as many samples as MOST_VALUES hold."""
    rows = max(1, MOST_VALUES * len(output) // max(output.numel(), 1))
    some, axis = output.detach()[:rows], channel_axis(output)
    others = [a for a in range(some.dim()) if a != axis]
    return (some != 0).any(others[0]) if len(others) == 1 else (some != 0).sum(others) > 0


@cache
def ends_of(kind: type) -> tuple[float, float] | None:
    """The values past which an activation function is pinned; None where it has none."""
    return next((BOUNDED[one] for one in kind.__mro__ if one in BOUNDED), None)


def saturated(kind: type, values: Tensor) -> float | None:
    """The share of values pinned at the ends of their activation function; None where it has none."""
    ends = ends_of(kind)
    return float(((values < ends[0]) | (values > ends[1])).float().mean()) if ends else None


class Silence:
    """The units of each place that were zero in the last ``WINDOW`` looks."""

    def __init__(self) -> None:
        self.looks: dict[str, tuple[int, NDArray[np.int64]]] = {}

    def share(self, place: str, live: NDArray[np.bool_]) -> float:
        """Takes in one look at a place and gives the share of its units that are dead by now.

        Of each place is kept how many looks there were, and at which of them each unit spoke last.
        """
        count, last = self.looks.get(place, (0, np.zeros(0, np.int64)))
        if len(last) != len(live):
            count, last = 0, np.zeros(len(live), np.int64)
        count += 1
        last[live] = count
        self.looks[place] = count, last
        return 1 - np.count_nonzero(last > max(count - WINDOW, 0)) / len(live)
