"""Where a loss stands: flat, at chance, on a plateau, or still on its way down when the run ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.curves.breaks import breaks
from nbdebug.curves.course import Course, quarters, stretches

FEWEST = 30


def flat(course: Course) -> bool:
    """Whether the loss of a run of thirty steps or more never moved beyond its noise, far from where it should be."""
    if course.count < FEWEST or course.good or not course.finite or not course.known or course.knows:
        return False
    far = course.share is not None and course.share >= 0.5
    moved = abs(course.whole.change)
    small = moved < 0.02 * max(abs(course.start), 1e-12)
    return (
        far
        and (small or moved < 3 * course.whole.error)
        and abs(course.end - course.start) < max(4 * course.error, 0.02 * abs(course.start))
    )


def stuck(course: Course) -> bool:
    """Whether the loss sits at what a constant guess gets, and has stopped falling.

    Where scores say that nothing was learned, the level may stray by a seventh, since chance is known from few samples;
    where there are none, it must not be under chance beyond noise.
    """
    if course.count < FEWEST or course.chance is None or course.share is None or not course.finite or course.good:
        return False
    if course.knows or (course.half.falls and -course.half.change > 0.015 * course.chance):
        return False
    level = course.share + 2 * course.error / course.chance
    return bool(course.share <= 1.15 and (level >= 0.985 or (course.knows is False and course.share >= 0.85)))


@dataclass(frozen=True)
class Plateau:
    """Where progress stopped: the step since which, and what is left there as a share of a constant guess."""

    since: int
    share: float


def plateau(course: Course, poor: float = 0.25) -> Plateau | None:
    """Whether the loss, well above zero, has gained nothing beyond noise since some step in its first two thirds."""
    if course.count < FEWEST or course.good or course.share is None or course.share < poor or not course.finite:
        return None
    if course.half.falls or course.half.rises or course.learned < 0.05:
        return None
    finite = np.flatnonzero(np.isfinite(course.loss))
    short = stretches(course, 48)
    at = breaks(short)
    last = at[-1] if at else 0
    if last > 2 * len(short) // 3:
        return None
    return Plateau(int(course.steps[finite[last * len(finite) // max(len(short), 1)]]), course.share)


def worthless(course: Course) -> bool:
    """Whether a run of a hundred steps ended over what a constant guess gets, tells nothing apart, and has settled."""
    if course.count < 100 or course.share is None or course.chance is None or course.half.falls:
        return False
    over = course.end - 3 * course.error > 1.05 * course.chance
    return over and course.knows is False and not course.good


@dataclass(frozen=True)
class Falling:
    """What the last quarter of the run gained, as a share of what is left; ``steep`` where it had not begun to slow."""

    gain: float
    sigmas: float
    steep: bool


def still_falling(course: Course, left: float = 0.25, large: float = 0.08) -> Falling | None:
    """Whether the loss was on its way down when the run ended, beyond noise."""
    if course.good or not course.positive or not course.finite or course.share is None or course.count < 12:
        return None
    gain = -course.late.change / max(course.end, 1e-12)
    sigmas = -course.late.change / max(course.late.error, 1e-12)
    if gain < 0.02 or sigmas < 3 or course.share < left / 2:
        return None
    gains = -np.diff(quarters(course))
    unslowed = gains[-1] >= 0.65 * gains.max() and gains[-1] > 0
    nothing = course.learned < 0.25 and course.share >= 0.8 and course.count >= 40
    much = gain >= (large / 4 if nothing else large)
    steep = bool(unslowed and much and sigmas >= 4 and course.share >= left and course.learned < 0.75)
    return Falling(float(gain), float(sigmas), steep)
