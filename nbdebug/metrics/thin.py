"""A curve in few points, of which nobody sees that some are missing."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.intervals import Floats

CLOSE = 1e-4  # of the width of a plot: less than any screen shows


def thinned(x: Floats, y: Floats, most: int = 200) -> NDArray[np.int64]:
    """Which points to keep of a curve that is drawn over a square of 0 to 1, in order.

    Point after point is added where the lines between those before are farthest off (Douglas and Peucker 1973,
    doi:10.3138/FM57-6770-U75U-7727), until there are so many, or all is near.
    """
    last = len(x) - 1
    kept, open_ = {0, last}, [farthest(x, y, 0, last)]
    while open_ and len(kept) < most:
        negative, at, first, end = heappop(open_)
        if -negative < CLOSE:
            break
        kept.add(at)
        for one in (farthest(x, y, first, at), farthest(x, y, at, end)):
            heappush(open_, one)
    return np.array(sorted(kept), np.int64)


def farthest(x: Floats, y: Floats, first: int, last: int) -> tuple[float, int, int, int]:
    """Minus the distance of the point between two others that is farthest from their line, its place, and theirs."""
    if last - first < 2:
        return 0.0, first, first, last
    wide, high = x[last] - x[first], y[last] - y[first]
    dx, dy = x[first + 1 : last] - x[first], y[first + 1 : last] - y[first]
    long = float(np.hypot(wide, high))
    away = np.abs(dx * high - dy * wide) / long if long > 0 else np.hypot(dx, dy)
    at = int(away.argmax())
    return -float(away[at]), first + 1 + at, first, last
