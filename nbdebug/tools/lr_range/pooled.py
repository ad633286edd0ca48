"""All sweeps as one curve: their mean, which has less noise than any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.noise import spread
from nbdebug.tools.lr_range.result import Sweep
from nbdebug.tools.lr_range.smoothing import OPENING, bounded, smoothed

Curve = NDArray[np.float64]

SURE = 4.5  # standard errors; pure noise comes so far in 3 of 1000 tests, by simulation


def pooled(sweeps: Sequence[Sweep]) -> Sweep:
    """The mean of the sweeps at each value; one that diverged stays as high as it came, one that was cut short ends.

    What a sweep lost beyond the height of its start and the depth of its way down counts only as that high.
    """
    longest = max(sweeps, key=lambda one: len(one.values))
    rows = np.full((len(sweeps), len(longest.values)), np.nan)
    for row, one in zip(rows, sweeps, strict=True):
        loss = bounded(np.asarray(one.losses, np.float64))
        row[: len(loss)] = loss
        if one.ended in ("diverged", "not finite"):
            row[len(loss) :] = loss.max()
    losses = np.nanmean(rows, 0).tolist()
    return replace(longest, losses=tuple(losses), smooth=smoothed(losses))


@dataclass(frozen=True)
class Descent:
    """The way down of a curve, on the logarithm of its values."""

    sweep: Sweep

    @cached_property
    def place(self) -> Curve:
        """Logarithms of the values; of those that are zero, the lowest there is."""
        values = np.asarray(self.sweep.values, np.float64)
        return np.asarray(np.log(np.maximum(values, values[values > 0].min(initial=np.inf))))

    @cached_property
    def loss(self) -> Curve:
        """The smoothed loss."""
        return np.asarray(self.sweep.smooth, np.float64)

    @property
    def lowest(self) -> int:
        """The index of the lowest place."""
        return int(self.loss.argmin())

    @property
    def depth(self) -> float:
        """How far it goes down from its opening."""
        return float(np.median(self.sweep.losses[:OPENING]) - self.loss.min())

    @property
    def is_one(self) -> bool:
        """Whether it goes down by more than the noise of the batches allows.

        The losses up to where half of the way is lost again are parted at each place in turn; what lies before the best
        of them must be higher in the mean than what lies after it, by several standard errors.
        """
        losses = np.asarray(self.sweep.losses, np.float64)[: self.up(0.5) + 1]
        if len(losses) < 2 * OPENING or self.depth <= 1e-6 * abs(float(losses[0])):
            return False
        before = np.arange(OPENING, len(losses) - OPENING + 1)
        after, sums = len(losses) - before, losses.cumsum()
        drop = sums[before - 1] / before - (sums[-1] - sums[before - 1]) / after
        return bool((drop > SURE * self.noise * np.sqrt(1 / before + 1 / after)).any())

    @property
    def noise(self) -> float:
        """The standard deviation of a loss about the curve, up to the lowest place: heavy tails count in full."""
        losses = np.asarray(self.sweep.losses, np.float64)
        way = np.diff(losses[: max(self.lowest, len(losses) // 4) + 1], 2)
        return max(spread(losses), float(np.sqrt((way**2).mean() / 6)) if len(way) else 0.0)

    def down(self, share: float) -> int:
        """The index of the first place before the lowest from which on such a share of the way down is made."""
        over = np.flatnonzero(self.loss[: self.lowest + 1] > self.loss.min() + (1 - share) * self.depth)
        return min(int(over[-1]) + 1, self.lowest) if len(over) else 0

    def up(self, share: float) -> int:
        """The index of the last place after the lowest up to which such a share of the way down is kept."""
        over = np.flatnonzero(self.loss[self.lowest :] > self.loss.min() + (1 - share) * self.depth)
        return self.lowest + int(over[0]) - 1 if len(over) else len(self.loss) - 1
