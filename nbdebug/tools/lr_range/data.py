"""Plain data of the curves: sweeps and suggestions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SweepEnd = Literal["finished", "diverged", "not finite", "stopped", "interrupted"]
RangeVerdict = Literal["clear", "unclear", "flat", "diverges at once", "stopped"]
_TENTHS = ("minimum", "divergence")  # readings of a tenth of the value
QUANTITY_NAMES = {"lr": "learning rate", "momentum": "momentum", "weight_decay": "weight decay"}


@dataclass(frozen=True)
class Sweep:
    """One pass over the values from the same weights, with one seed for the batch order and dropout.

    ``values`` are those of the first group of the first optimizer. ``losses`` has the same length: the loss of the
    batch that the step at this value trains on (before the step), or of a fixed validation batch after the step.
    Non-finite losses are omitted. For momentum and weight decay, it is the difference from the losses of the same
    batches at the user's own value. ``smooth`` is the smoothed curve.
    """

    seed: int
    values: tuple[float, ...] = field(repr=False)
    losses: tuple[float, ...] = field(repr=False)
    smooth: tuple[float, ...] = field(repr=False)
    ended: SweepEnd = "finished"


@dataclass(frozen=True)
class Suggestion:
    """The reading of one method from the curves: the median over the sweeps, the range, and the value of each sweep.

    None if a curve has no such value.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    each: tuple[float | None, ...] = ()

    @property
    def label(self) -> str:
        """The name, with the share of the value that the method reads, as in ``minimum ÷ 10``."""
        return f"{self.name} ÷ 10" if self.name in _TENTHS else self.name

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return f"{self.label}: none"
        return f"{self.label}: {self.value:.2g} ({self.low:.2g} to {self.high:.2g})"
