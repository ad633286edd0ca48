"""Delta debugging: the smallest set of items that makes a test fail.

Zeller and Hildebrandt 2002, Simplifying and isolating failure-inducing input, doi:10.1109/32.988498.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise


class OutOfRuns(Exception):
    """The number of runs is exhausted."""


def minimize(items: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return a subset that fails and of which no part of the last partition can be left out; ``items`` must fail.

    A set is split into parts. A part that fails alone replaces the set, else what remains without a part and still
    fails; else the parts are halved. With one item at fault, it takes at most two runs for each halving.
    """
    current, parts = list(items), 2
    while len(current) > 1:
        chunks = _split(current, min(parts, len(current)))
        smaller = next((chunk for chunk in chunks if fails(chunk)), None)
        if smaller is not None:
            current, parts = smaller, 2
            continue
        rest = next((rest for rest in _complements(chunks) if fails(rest)), None) if len(chunks) > 2 else None
        if rest is not None:
            current, parts = rest, max(len(chunks) - 1, 2)
        elif len(chunks) == len(current):
            break
        else:
            parts = 2 * len(chunks)
    return current


def _split(items: list[int], parts: int) -> list[list[int]]:
    bounds = [round(len(items) * part / parts) for part in range(parts + 1)]
    return [items[first:last] for first, last in pairwise(bounds)]


def _complements(chunks: list[list[int]]) -> list[list[int]]:
    return [
        [item for other, chunk in enumerate(chunks) if other != left_out for item in chunk]
        for left_out in range(len(chunks))
    ]


def first_failing(count: int, fails: Callable[[int], bool]) -> int:
    """Return the first of ``count`` positions that fails; position 0 must pass and the last one fail."""
    low, high = 0, count - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high
