"""The curve of a run without its noise, and those of one candidate as a line with a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbdebug.curves.noise import spread
from nbdebug.curves.smoothing import Curve, binned
from nbdebug.tools.contest.result import Run
from nbdebug.tools.lr_range.smoothing import smoothed

POINTS = 80
MOST = 400  # a longer run is averaged down to so many stretches first


@dataclass(frozen=True)
class Band:
    """Steps, and for each the mean of the smoothed curves and the lowest and highest of them."""

    steps: tuple[int, ...] = ()
    middle: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


def band(runs: Sequence[Run], most: int = POINTS) -> Band:
    """At most so many points of the runs, as far as the longest goes; of one run the band is the noise of its steps."""
    begun = [one for one in runs if one.losses]
    if not begun:
        return Band()
    last = max(len(one.losses) for one in begun)
    places = np.unique(np.linspace(1, last, min(most, last)).round())
    table = np.array([at(one, places) for one in begun])
    noise = spread(np.asarray(begun[0].losses)) if len(begun) == 1 and not begun[0].lost else 0.0
    found = (np.nanmean(table, 0), np.nanmin(table, 0) - noise, np.nanmax(table, 0) + noise)
    return Band(tuple(places.astype(int).tolist()), *(tuple(one.tolist()) for one in found))


def at(run: Run, places: Curve) -> Curve:
    """The curve of a run at some steps, NaN after its end; one that was lost as it was, since it has no calm course."""
    curve = np.asarray(run.losses) if run.lost else calm(run.losses)
    steps = np.linspace(1, len(run.losses), len(curve))
    return np.interp(places, steps, curve, right=np.nan)


def calm(losses: Sequence[float]) -> Curve:
    """The smoothed losses, of a long run by stretches."""
    return np.asarray(smoothed(binned(np.asarray(losses), MOST).tolist()))
