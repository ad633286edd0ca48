"""Dead units and saturated activations."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

DEAD_UNIT_WINDOW = 8  # snapshots
MAX_VALUES = 16_384
# Beyond this level the gradient of a sigmoid is under 1/8 of its maximum, that of a tanh under 1/16.
_SATURATION_LEVEL = 0.97
_SATURATION_BOUNDS: dict[type, tuple[float, float]] = {
    nn.Sigmoid: (1 - _SATURATION_LEVEL, _SATURATION_LEVEL),
    nn.Tanh: (-_SATURATION_LEVEL, _SATURATION_LEVEL),
    nn.Softmax: (-1.0, _SATURATION_LEVEL),
    nn.Hardsigmoid: (1 - _SATURATION_LEVEL, _SATURATION_LEVEL),
    nn.Hardtanh: (-_SATURATION_LEVEL, _SATURATION_LEVEL),
}


def _channel_axis(output: Tensor) -> int:
    """Return the unit axis: axis 1 of images, the last axis otherwise."""
    return 1 if output.dim() in (4, 5) else output.dim() - 1


def live_units(output: Tensor) -> Tensor:
    """Return which units of an output are nonzero for some sample; inspects at most MAX_VALUES values."""
    rows = max(1, MAX_VALUES * len(output) // max(output.numel(), 1))
    subset, axis = output.detach()[:rows], _channel_axis(output)
    return subset.any([a for a in range(subset.dim()) if a != axis])  # a fifth of the time of (subset != 0).any()


@cache
def saturation_bounds(module_type: type) -> tuple[float, float] | None:
    """Return the values beyond which an activation module is saturated, or None if it cannot saturate."""
    return next((_SATURATION_BOUNDS[base] for base in module_type.__mro__ if base in _SATURATION_BOUNDS), None)


def saturated_share(module_type: type, values: NDArray[np.float32]) -> float | None:
    """Return the share of saturated values, or None if the activation cannot saturate."""
    bounds = saturation_bounds(module_type)
    return float(((values < bounds[0]) | (values > bounds[1])).mean()) if bounds else None


class DeadUnits:
    """Units of each module output that were zero in the last ``DEAD_UNIT_WINDOW`` snapshots."""

    def __init__(self) -> None:
        self.history: dict[str, tuple[int, NDArray[np.int64]]] = {}

    def dead_share(self, name: str, is_live: NDArray[np.bool_]) -> float:
        """Add one snapshot of an output and return the share of its units that are dead.

        Stores the number of snapshots of each output, and the last one in which each unit was active.
        """
        count, last_active = self.history.get(name, (0, np.zeros(0, np.int64)))
        if len(last_active) != len(is_live):
            count, last_active = 0, np.zeros(len(is_live), np.int64)
        count += 1
        last_active[is_live] = count
        self.history[name] = count, last_active
        return 1 - np.count_nonzero(last_active > max(count - DEAD_UNIT_WINDOW, 0)) / len(is_live)
