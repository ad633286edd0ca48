"""The recommended rate put to the proof: trainings that stay at it and below it, and the rate that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.noise import resampled

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.result import Ended

Word = Literal["kept", "lowest", "as good", "clearly worse", "lost", "stopped"]
Outcome = Literal["confirmed", "lowered", "not told apart", "lost", "stopped"]

LAST = 3  # the last third of the steps is compared
OPENING = 5  # steps whose median is the first loss
NORMAL = 1.96  # the 97.5 % point of the normal distribution


@dataclass(frozen=True)
class Training:
    """A training that stays at one rate: from the same weights and on the same batches as those beside it.

    ``losses`` and ``smooth`` are as in a sweep, one a step; what was not finite is left out.
    """

    rate: float
    losses: tuple[float, ...] = field(repr=False)
    smooth: tuple[float, ...] = field(repr=False)
    ended: Ended = "finished"

    @property
    def is_whole(self) -> bool:
        """Whether it was left to run until it ended by itself."""
        return self.ended not in ("stopped", "interrupted")

    @property
    def is_lost(self) -> bool:
        """Whether its loss diverged, or ends no lower than it began."""
        return self.ended in ("diverged", "not finite") or self.end >= float(np.median(self.losses[:OPENING]))

    @property
    def last(self) -> NDArray[np.float64]:
        """The losses of the last third."""
        return np.asarray(self.losses[-max(1, len(self.losses) // LAST) :], np.float64)

    @property
    def end(self) -> float:
        """What it trains to: the mean loss of the last third; not a number without any."""
        return float(self.last.mean()) if self.losses else float("nan")


@dataclass(frozen=True)
class Proof:
    """What trainings at the recommended rate and below it came to, from the highest rate to the lowest.

    ``asked`` is what the sweeps recommend, ``kept`` what is recommended after all, None where every rate was lost.
    ``outcome`` is "confirmed", "lowered" where the rate did clearly worse, "not told apart" where a lower one did as
    well within the noise, and so is kept, "lost", or "stopped" before two trainings were through. ``said`` says it.
    """

    asked: float
    kept: float | None
    outcome: Outcome
    said: str
    trainings: tuple[Training, ...] = ()

    @property
    def standings(self) -> list[Standing]:
        """The trainings side by side."""
        lowest = best(self.trainings)
        kept = None if self.outcome == "stopped" else self.kept
        return [standing(one, lowest, one.rate == kept) for one in self.trainings]


@dataclass(frozen=True)
class Standing:
    """What one training came to: its loss at the end, by how much that lies over the lowest, and that in a word.

    ``half`` is the half-width of the 95 % interval of ``over``; what is not known is None. One that is "as good" ends
    higher by no more than chance would have it.
    """

    rate: float
    end: float | None
    over: float | None
    half: float | None
    word: Word

    @property
    def gap(self) -> str:
        """By how much it lies over the lowest, with the interval; empty for the lowest."""
        return measured(self.over, self.half) if self.over and self.half is not None else ""

    def __str__(self) -> str:
        """All of it in a line."""
        beyond = f", {self.gap} over the lowest" if self.gap else ""
        loss = f", loss {self.end:.3g}{beyond}" if self.end is not None else ""
        return f"trained at {self.rate:.2g}: {self.word}{loss}"


def measured(value: float, half: float) -> str:
    """A value with the half-width of its interval, both to the second digit of that."""
    digits = max(0, 1 - floor(log10(half))) if half > 0 else 4
    return f"{value:.{digits}f} ± {half:.{digits}f}"


def standing(one: Training, lowest: Training | None, kept: bool) -> Standing:
    """A training beside the one that ends lowest."""
    if not one.is_whole or one.is_lost or lowest is None:
        return Standing(one.rate, None, None, None, "lost" if one.is_whole else "stopped")
    over, half = excess(one, lowest)
    word: Word = "lowest" if one is lowest else "clearly worse" if over > half else "as good"
    return Standing(one.rate, one.end, over, half, "kept" if kept else word)


def excess(one: Training, other: Training) -> tuple[float, float]:
    """By how much the first ends over the second, batch by batch, and the half-width of the 95 % interval.

    Both learn the same batches, so that what these differ by cancels; how neighboring differences hang together is
    left to them by a block bootstrap (Künsch 1989, doi:10.1214/aos/1176347265). It is the noise of this one order.
    """
    between = one.last - other.last
    return float(between.mean()), NORMAL * float(resampled(between).std())


def is_worse(one: Training, other: Training) -> bool:
    """Whether the first ends higher than the second beyond the noise, or is lost where that is not."""
    if one.is_lost or other.is_lost:
        return one.is_lost and not other.is_lost
    over, half = excess(one, other)
    return over > half


def best(trainings: Sequence[Training]) -> Training | None:
    """The training that ends lowest."""
    return min((one for one in trainings if one.is_whole and not one.is_lost), key=lambda one: one.end, default=None)
