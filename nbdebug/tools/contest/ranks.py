"""Which of several candidates is better beyond chance: differences under the same seeds, on the same batches."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from nbdebug.curves.noise import resampled

Values = NDArray[np.float64]
# The 97.5 % points of Student's t, by one less than the number of seeds; beyond them that of the normal distribution.
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NORMAL = 1.96


def interval(by_seed: Sequence[Values]) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval, from a series of values for each seed.

    The larger of two errors counts: between the seeds, by Student's t, and within them, by block bootstrap. That of
    the seeds alone would come out as nothing where two of three happen to agree.
    """
    means = np.array([one.mean() for one in by_seed])
    within = NORMAL * sqrt(sum(float(resampled(one).std()) ** 2 for one in by_seed if len(one) > 1)) / len(by_seed)
    if len(by_seed) < 2:
        return float(means.mean()), within
    student = STUDENT[len(means) - 2] if len(means) - 2 < len(STUDENT) else NORMAL
    return float(means.mean()), max(within, student * float(means.std(ddof=1)) / sqrt(len(means)))


def is_better(one: Sequence[Values], other: Sequence[Values], margin: float = 0.0) -> bool:
    """Whether the first has the lower values beyond chance and by more than ``margin``, seed by seed, step by step."""
    middle, half = interval([a - b for a, b in zip(one, other, strict=False)])
    return middle + half < 0 and middle < -margin


def ranks(scores: Sequence[Sequence[Values] | None], margin: float = 0.0) -> list[int]:
    """For each candidate one more than the number of those that are better; without scores it is behind all others.

    Equal ranks are ties.
    """
    known = [one for one in scores if one is not None]
    found = []
    for one in scores:
        better = known if one is None else [each for each in known if each is not one and is_better(each, one, margin)]
        found.append(1 + len(better))
    return found


def middle(one: Sequence[Values] | None) -> float:
    """The mean over the seeds, by which ties are ordered; infinite without scores."""
    return float(np.mean([each.mean() for each in one])) if one else inf
