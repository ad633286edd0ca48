"""What a page must know of a column to filter by it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOOKED_AT = 100_000  # rows, evenly spread, of a longer column
MOST_CHOICES = 50
BINS = 24


def described(values: NDArray[Any]) -> dict[str, Any]:
    """The kind of a column, and its bounds with a histogram or its most frequent texts with their counts.

    ``part`` is true where only some of the rows were looked at.
    """
    every = -(-len(values) // LOOKED_AT) or 1
    some, part = values[::every], every > 1
    if values.dtype.kind in "fiu":
        return {"kind": "number", "part": part, **_bounds(some[np.isfinite(some)])}
    found = Counter(str(one) for one in some.tolist())
    choices = [[text[:200], count] for text, count in found.most_common(MOST_CHOICES)]
    return {"kind": "text", "part": part, "choices": choices, "more": max(0, len(found) - MOST_CHOICES)}


def _bounds(values: NDArray[Any]) -> dict[str, Any]:
    if not len(values):
        return {"low": None, "high": None, "bins": []}
    low, high = float(values.min()), float(values.max())
    bins = np.histogram(values.astype(np.float64), BINS, (low, high))[0].tolist() if low < high else []
    return {"low": float(f"{low:.4g}"), "high": float(f"{high:.4g}"), "bins": bins}
