"""What the curve of a sweep suggests: five ways to read it, each a function from a sweep to a value or None."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nbdebug.tools.lr_range.result import Quantity, Suggestion, Sweep

Curve = NDArray[np.float64]
Reading = Callable[[Sweep], float | None]

LEAST = 5  # places: a curve of fewer has no shape
ORDER = 10.0
HIGH = 0.9  # of the opening's height over the lowest place
GENTLE = 0.1  # of the steepest descent


def steepest(sweep: Sweep) -> float | None:
    """Where the smoothed loss falls fastest against the logarithm of the value, on its way down.

    Against the value itself the slope is steepest at the smallest values of all, whatever the curve.
    """
    place, slope = way_down(sweep)
    return back(place[slope.argmin()]) if len(slope) and slope.min() < 0 else None


def valley(sweep: Sweep) -> float | None:
    """The middle of the longest descent: of the longest series of places at each of which the loss is lower."""
    place, loss = curve(sweep)
    if len(place) < LEAST:
        return None
    first, last = longest_descent(loss)
    return back(place[(first + last) // 2]) if last > first else None


def slide(sweep: Sweep) -> float | None:
    """Where the descent ends: the last place before the lowest one that falls at a tenth of the steepest slope."""
    place, slope = way_down(sweep)
    if not len(slope) or slope.min() >= 0:
        return None
    return back(place[np.flatnonzero(slope <= GENTLE * slope.min())[-1]])


def minimum(sweep: Sweep) -> float | None:
    """A tenth of the value at which the loss is lowest."""
    found = lowest(sweep)
    return found / ORDER if found is not None else None


def lowest(sweep: Sweep) -> float | None:
    """The value at which the loss is lowest, unless that is the first."""
    place, loss = curve(sweep)
    return back(place[loss.argmin()]) if len(place) >= LEAST and loss.argmin() > 0 else None


def divergence(sweep: Sweep) -> float | None:
    """One order below the value at which the loss was lost; None where it never was."""
    found = lost(sweep)
    return found / ORDER if found is not None else None


def lost(sweep: Sweep) -> float | None:
    """The first value after the lowest place whose loss, and every later one, lies over the start of the curve."""
    if sweep.ended not in ("diverged", "not finite") or not sweep.values:
        return None
    loss = np.asarray(sweep.smooth)
    over = loss > np.median(sweep.losses[:LEAST])
    below = np.flatnonzero(~over)
    last = int(below[-1]) + 1 if len(below) else 0
    return float(sweep.values[min(last, len(loss) - 1)])


READINGS: dict[Quantity, tuple[Reading, ...]] = {
    "lr": (steepest, valley, slide, minimum, divergence),
    "momentum": (steepest, valley, lowest, lost),
    "weight_decay": (steepest, valley, lowest, lost),
}


def suggestions(quantity: Quantity, sweeps: Sequence[Sweep]) -> tuple[Suggestion, ...]:
    """What every reading says of every sweep, side by side."""
    return tuple(suggestion(one.__name__, [one(sweep) for sweep in sweeps]) for one in READINGS[quantity])


def suggestion(name: str, each: Sequence[float | None]) -> Suggestion:
    """The median of what the sweeps say, none where most of them say nothing, and their spread."""
    found = sorted(one for one in each if one is not None)
    if not found or 2 * len(found) < len(each):
        return Suggestion(name, None, None, None, tuple(each))
    return Suggestion(name, middle(found), found[0], found[-1], tuple(each))


def middle(values: Sequence[float]) -> float:
    """The median; between two values in the middle the geometric mean."""
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    return low if low == high else float(np.sqrt(low * high))


def curve(sweep: Sweep) -> tuple[Curve, Curve]:
    """The logarithms of the values above zero, and the smoothed losses there."""
    values, loss = np.asarray(sweep.values, np.float64), np.asarray(sweep.smooth, np.float64)
    return np.log(values[values > 0]), loss[values > 0]


def way_down(sweep: Sweep) -> tuple[Curve, Curve]:
    """Logarithms and slopes from the last place that is about as high as the opening, to the lowest.

    What a noisy curve does before it sets out is no way down, however steep. Empty where there are too few places.
    """
    place, loss = curve(sweep)
    if len(place) < LEAST:
        return place[:0], loss[:0]
    low = int(loss.argmin())
    opening = float(np.median(loss[place <= (place[0] + place[low]) / 2]))
    high = np.flatnonzero(loss[: low + 1] >= loss[low] + HIGH * (opening - loss[low]))
    way = slice(int(high[-1]) if len(high) else 0, low + 1)
    return place[way], np.gradient(loss, place)[way]


def back(place: float) -> float:
    """The value of a logarithm, to ten digits, beyond which the logarithm has added noise."""
    return float(f"{np.exp(place):.10g}")


def longest_descent(loss: Curve) -> tuple[int, int]:
    """First and last place of the longest strictly falling series, which may leave places out.

    Fredman 1975, doi:10.1016/0012-365X(75)90103-X: for each length, the series so far that ends highest.
    """
    grain = 1e-9 * float(np.ptp(loss)) or 1.0
    tails: list[float] = []
    ends: list[int] = []
    before: list[int] = []
    for i, key in enumerate(np.round((loss.max() - loss) / grain).tolist()):
        at = bisect_left(tails, key)
        before.append(ends[at - 1] if at else -1)
        tails[at : at + 1], ends[at : at + 1] = [key], [i]
    first = last = ends[-1]
    while before[first] >= 0:
        first = before[first]
    return first, last
