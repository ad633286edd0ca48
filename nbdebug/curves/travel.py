"""How far the weights went in a run, against their own length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.record import Record
from nbdebug.record.record import Steps
from nbdebug.record.table import Numbers


@dataclass(frozen=True)
class Travel:
    """The way of the weights of each module: the lengths of all its steps added up, over the length of its weights.

    ``ways`` holds one number a module that moved at all; ``first`` the largest relative step of a module at the first
    looks, ``peak`` that at any look, and ``ratio`` the middle one of the run, each for the middle one of all modules.
    """

    ways: tuple[float, ...] = ()
    ratio: float = 0.0
    first: float = 0.0
    peak: float = 0.0

    @property
    def most(self) -> float:
        """The way that three modules in four do not pass."""
        return float(np.quantile(self.ways, 0.75)) if self.ways else 0.0


def travel(record: Record, early: int = 4) -> Travel:
    """The ways of all modules whose updates were seen; of those between two looks, the mean of both is taken."""
    homes: dict[str, list[str]] = {}
    for place in record.places("update.norm"):
        homes.setdefault(place.rpartition(".")[0], []).append(place)
    ways, ratios, firsts, peaks = [], [], [], []
    for places in homes.values():
        steps, ratio = relative(record, places)
        if len(steps) and ratio.max() > 0:
            ways.append(summed(steps, ratio, record.steps))
            ratios.append(float(np.median(ratio)))
            firsts.append(float(ratio[:early].max()))
            peaks.append(float(ratio.max()))
    if not ways:
        return Travel()
    return Travel(tuple(ways), float(np.median(ratios)), float(np.median(firsts)), float(np.median(peaks)))


def relative(record: Record, places: list[str]) -> tuple[Steps, Numbers]:
    """The length of each step of a module over that of its weights, at the looks that saw all of its parameters."""
    squares = []
    for family in ("update", "weight"):
        columns = [record.series(f"{family}.norm", place) for place in places]
        if len({tuple(steps) for steps, _ in columns}) != 1:
            columns = columns[:1]
        squares.append((columns[0][0], np.sum([values.astype(np.float64) ** 2 for _, values in columns], axis=0)))
    (steps, moved), (others, weight) = squares
    if len(steps) != len(others):
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    return steps, np.sqrt(np.minimum(moved, 1e30) / np.clip(weight, 1e-16, 1e30)).astype(np.float32)


def summed(steps: Steps, ratio: Numbers, last: int) -> float:
    """The sum over all steps up to ``last`` of what was seen at some of them."""
    at = np.arange(1, max(last, int(steps[-1])) + 1)
    return float(np.interp(at, steps, ratio).sum())
