"""Whether a run went at a rate too high or too low for it, by what its steps did to the weights and to the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.curves.course import Course, quarters

OPENING = 12  # steps in which a rate that is too high throws the loss up
WILD = 0.02  # of their length: what the weights move at first at least, where the rate is what makes the loss explode


@dataclass(frozen=True)
class TooHigh:
    """How the loss was thrown: ``jump`` is its peak in the first steps over where it began, ``first`` the share of
    their length that the weights of a typical module moved in one of the first steps."""

    jump: float
    first: float
    diverged: bool


def too_high(course: Course, overwritten: float = 0.15, thrown: float = 1.5, poor: float = 0.2) -> TooHigh | None:
    """What tells of a rate that is too high; None where nothing does, or where the run went well all the same.

    Either the first steps overwrote a good part of the weights, or threw the loss up, and it never came down to where
    it should; or it ended far above where it began.
    """
    if course.good or not course.positive:
        return None
    jump, first = opening_jump(course), course.travel.first
    base = max(course.start, course.chance or 0.0)
    diverged = course.end > 3 * base and course.travel.peak > overwritten and first > WILD
    left = course.share if course.share is not None else 0.0
    if diverged or (exploded(course) and first > WILD):
        return TooHigh(jump, first, True)
    hurt = left >= poor and (jump >= thrown or settles_high(course))
    if jump >= 10 * thrown or (first >= overwritten and hurt):
        return TooHigh(jump, first, False)
    return None


def opening_jump(course: Course) -> float:
    """The highest loss of two of the first steps in a row over the start; a single one may be a bad batch.

    A start under half of chance counts as that half.
    """
    seen = course.loss[:OPENING]
    seen = seen[np.isfinite(seen)]
    base = max(course.start, 0.5 * (course.chance or 0.0))
    return float(np.minimum(seen[1:], seen[:-1]).max() / base) if len(seen) > 1 and base > 0 else 0.0


def settles_high(course: Course) -> bool:
    """Whether a network of several layers stays at nine tenths of a constant guess or more and no longer falls, or had
    half of each layer overwritten at once. A single layer may well begin far from its end."""
    if len(course.travel.ways) < 2:
        return False
    stays = course.share is not None and course.share >= 0.9 and not course.half.falls
    return stays or course.travel.first >= 0.5


def exploded(course: Course) -> bool:
    """Whether the loss grew step by step until it was not finite: a hundredfold at least before it was."""
    bad = np.flatnonzero(~np.isfinite(course.loss))
    if not len(bad) or bad[0] < 3:
        return False
    before = course.loss[: bad[0]]
    return bool(before[-1] > 100 * max(course.start, 1e-12))


@dataclass(frozen=True)
class TooLow:
    """How little happened: ``way`` is the sum of all steps of the weights over their length, for three modules in four
    at most that; ``learned`` the share of the loss that is gone."""

    way: float
    ratio: float
    learned: float


def too_low(course: Course, way: float = 0.5, ratio: float = 3e-3, far: float = 0.6) -> TooLow | None:
    """What tells of a rate that is too low; None where nothing does.

    Either no layer can have come far from where it began, since all its steps end to end are a fraction of its length;
    or the loss creeps down along a straight line, at nearly a constant guess after a hundred steps.
    """
    if course.good or not course.positive or not course.finite or not course.travel.ways:
        return None
    left, went = course.share if course.share is not None else 1.0, course.travel
    found = TooLow(went.most, went.ratio, course.learned)
    near = went.most < way and max(went.ways) < 2 * way and went.ratio < ratio
    if near and left >= far and course.learned < 0.4 and not course.whole.rises:
        return found
    on = course.count >= 100 and course.half.falls and max(went.ratio, went.first) < WILD
    creeps = left >= 0.8 and course.learned < 0.25 and straight(course)
    slow = went.most < 2 * way and went.ratio < ratio / 2 and left >= far / 2 and gains_half(course) > 0.15
    slow = slow and course.learned < 0.75
    return found if on and (creeps or slow) else None


def gains_half(course: Course) -> float:
    """What the second half of the run gained, as a share of what is left."""
    return -course.half.change / max(course.end, 1e-12)


def straight(course: Course) -> bool:
    """Whether every quarter of the run gained alike, and the last no less than half of any."""
    gains = -np.diff(quarters(course))
    return bool(gains.min() >= 0.3 * gains.mean() and gains[-1] >= 0.5 * gains.max())
