"""The places of the highest and of the lowest of many values, without sorting them all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]
SAMPLE = 4096


def highest(values: NDArray[Any], most: int) -> Places:
    """The places of the highest values, at most so many, the highest first; equal ones as they stand, NaN last."""
    # The complement orders whole numbers as their negative does, also unsigned ones, the lowest one and bools.
    return lowest(-values if values.dtype.kind == "f" else ~values, most)


def lowest(values: NDArray[Any], most: int) -> Places:
    """The places of the lowest values, at most so many, the lowest first; equal ones as they stand, NaN last."""
    near = below(values, most)
    return exact(values, most) if near is None else near[exact(values[near], most)]


def exact(values: NDArray[Any], most: int) -> Places:
    """The same by a look at all values."""
    if most < 1 or len(values) <= most:
        return np.argsort(values, kind="stable")[:most]
    edge = np.partition(values, most - 1)[most - 1]
    real = values == values
    less, ties = (values < edge, values == edge) if edge == edge else (real, ~real)
    first = np.flatnonzero(less)
    last = np.flatnonzero(ties)[: most - len(first)]
    return np.concatenate([first[np.argsort(values[first], kind="stable")], last])


def below(values: NDArray[Any], most: int) -> Places | None:
    """The places of rather few values with all of the lowest among them; None where a sample does not tell."""
    step = len(values) // SAMPLE
    rank = 2 * most // step + 16 if step else SAMPLE
    if rank > SAMPLE // 4:
        return None
    kept = np.flatnonzero(values <= np.partition(values[::step], rank)[rank])
    return kept if most <= len(kept) <= len(values) // 2 else None
