"""Times of functions that take turns, so that a machine that becomes slower is slower for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np

Work = Callable[[], Any]


def times(works: Mapping[str, Work], rounds: int = 9) -> dict[str, list[float]]:
    """Seconds of CPU of each function, round by round; the order of the turns is reversed in every other round."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        for name in list(works) if number % 2 == 0 else list(works)[::-1]:
            found[name].append(cpu(works[name]))
    return found


def paired(works: Mapping[str, Work], rounds: int) -> dict[str, str]:
    """Each function against the first one: the median of the rounds' ratios, with nine in ten of its bootstraps.

    The turns of a round come by chance, so that none always runs in what another one left in the caches.
    """
    random, found = np.random.default_rng(0), {name: list[float]() for name in works}
    for _ in range(rounds):
        for name in random.permutation(list(works)):
            found[name].append(cpu(works[name]))
    base, said = np.array(next(iter(found.values()))), {}
    for name, seconds in found.items():
        each = np.array(seconds) / base
        low, high = np.quantile([np.median(random.choice(each, rounds)) for _ in range(500)], (0.05, 0.95))
        said[name] = f"{np.median(seconds) * 1e3:9.2f} ms {np.median(each):8.3f} ({low:.3f} – {high:.3f})"
    return said


def cpu(work: Work) -> float:
    """Seconds of CPU that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def wall(work: Work) -> float:
    """Seconds on the wall that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratios(works: Mapping[str, Work], rounds: int = 9) -> dict[str, str]:
    """Each function against the first one: the median of the rounds, with the lowest and the highest."""
    found = times(works, rounds)
    base = next(iter(found.values()))
    said = {}
    for name, seconds in found.items():
        each = [one / max(first, 1e-9) for one, first in zip(seconds, base, strict=True)]
        said[name] = f"{median(seconds) * 1e3:9.2f} ms {median(each):8.2f} ({min(each):.2f} – {max(each):.2f})"
    return said


def micro(work: Work, count: int = 2000) -> float:
    """Microseconds of one of many calls."""
    start = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - start) / count * 1e6
