"""The curves of one candidate over its seeds as one line with a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbdebug.curves.noise import spread
from nbdebug.tools.contest.result import Run
from nbdebug.tools.lr_range.smoothing import smoothed

POINTS = 80


@dataclass(frozen=True)
class Band:
    """Steps, and for each the mean of the smoothed curves and the lowest and highest of them."""

    steps: tuple[int, ...] = ()
    middle: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


def band(runs: Sequence[Run], most: int = POINTS) -> Band:
    """At most so many points of the runs, as far as the longest goes; of one run the band is the noise of its steps.

    A run that was lost is drawn as it was: it has no noise that smoothing could take away.
    """
    curves = [np.asarray(one.losses if one.lost else smoothed(one.losses)) for one in runs if one.losses]
    length = max(map(len, curves), default=0)
    if not length:
        return Band()
    places = np.unique(np.linspace(0, length - 1, min(most, length)).round().astype(int))
    table = np.full((len(curves), length), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve
    picked = table[:, places]
    noise = spread(np.asarray(next(one.losses for one in runs if one.losses))) if len(curves) == 1 else 0.0
    low, high = np.nanmin(picked, 0) - noise, np.nanmax(picked, 0) + noise
    found = (np.nanmean(picked, 0), low, high)
    return Band(tuple((places + 1).tolist()), *(tuple(one.tolist()) for one in found))
