"""Whether units still speak: those that were zero in all samples of the last looks, and values pinned at their ends."""

from __future__ import annotations

from collections import deque

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


def saturated(kind: type[nn.Module], values: Tensor) -> float | None:
    """The share of values pinned at the ends of their activation function; None where it has none."""
    ends = next((BOUNDED[one] for one in kind.__mro__ if one in BOUNDED), None)
    return float(((values < ends[0]) | (values > ends[1])).float().mean()) if ends else None


class Silence:
    """The units of each place that were zero in the last ``WINDOW`` looks."""

    def __init__(self) -> None:
        self.window: dict[str, deque[NDArray[np.bool_]]] = {}

    def share(self, place: str, live: NDArray[np.bool_]) -> float:
        """Takes in one look at a place and gives the share of its units that are dead by now."""
        looks = self.window.setdefault(place, deque(maxlen=WINDOW))
        if looks and len(looks[0]) != len(live):
            looks.clear()
        looks.append(live)
        return 1 - float(np.logical_or.reduce(looks).mean())
