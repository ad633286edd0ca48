"""Where a loss goes up: for good, again and again, for a moment, or once an epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.curves.breaks import spikes
from nbdebug.curves.course import Course, stretches
from nbdebug.curves.noise import standard_error
from nbdebug.curves.rates import exploded
from nbdebug.curves.rhythm import Rhythm, rhythm

FEWEST = 30


@dataclass(frozen=True)
class Diverging:
    """Where the loss was lowest, and where it ended."""

    lowest: float
    end: float


def diverging(course: Course) -> Diverging | None:
    """Whether the loss rises: over the whole run and its second half, to above start and constant guess.

    Of a loss that cannot be compared with a constant guess, such as that of an adversary or of moving targets, only a
    tenfold growth counts.
    """
    if course.count < 20:
        return None
    if exploded(course):
        return Diverging(course.best, float("inf"))
    base = max(course.start, course.chance or -np.inf)
    room = abs(base) * (0.1 if course.chance is not None else 9.0) + 4 * course.error
    rose = course.end > base + room and course.end > course.best + 4 * course.error
    grows = course.whole.change > 2 * course.whole.error and course.half.change > 0
    return Diverging(course.best, course.end) if rose and grows else None


@dataclass(frozen=True)
class Swings:
    """How often the loss turned up by a good part of its level, and the largest of these rises as a share of it."""

    rises: int
    largest: float


def oscillating(course: Course, least: float = 0.25, times: int = 3) -> Swings | None:
    """Whether the loss of a run of sixty steps or more swings without settling, beyond the noise of its stretches."""
    if (
        course.count < 60
        or not course.known
        or course.good
        or course.share is None
        or course.share < 0.2
        or not course.finite
    ):
        return None
    parts = np.array_split(course.loss, 16)[3:]
    levels = stretches(course, 16)[3:]
    errors = np.array([standard_error(part) for part in parts])
    steps, sure = np.diff(levels), 3 * np.hypot(errors[1:], errors[:-1])
    up = (steps > sure) & (steps > least * levels[:-1])
    settled = levels[-4:].mean() < 0.6 * levels[:4].mean()
    found = steps[up] / levels[:-1][up]
    return Swings(int(up.sum()), float(found.max())) if up.sum() >= times and not settled else None


def spiked(course: Course) -> list[int]:
    """Places in the loss that tower over their neighbors, over twice of what the first steps cost, and over thrice of
    what all steps but one an epoch stay under; the opening is not looked at, where a rate that is too high shows."""
    calm = course.loss[np.isfinite(course.loss)]
    if not course.positive or len(calm) < len(course.loss) / 2:
        return []
    usual = float(np.clip(1 - 1.5 / max(course.per_epoch, 1), 0.9, 0.99))  # one batch of an epoch may be the bad one
    base = max(2 * float(np.median(calm[:12])), 3 * float(np.quantile(calm, usual)))
    opening = max(12, len(course.loss) // 20)
    return [at for at in spikes(course.loss, base) if at >= opening]


def forgets(course: Course, evals: int = 3) -> bool:
    """Whether fixed training samples, between epochs and in eval mode, cost thrice what batches do while they are
    trained on: what an epoch began with is lost at its end."""
    late = course.train.loss[1:][-evals:]
    return len(late) > 0 and bool((late > 3 * np.median(course.loss[-evals * course.per_epoch :])).all())


def keeps(course: Course, evals: int = 3) -> bool:
    """Whether the same samples cost no more than the batches of the epochs do: some batches are harder than others,
    and nothing of what an epoch began with is lost at its end."""
    late = course.train.loss[1:][-evals:]
    return len(late) > 0 and bool(np.median(late) <= np.mean(course.loss[-evals * course.per_epoch :]))


def epoch_rhythm(course: Course, agreement: float = 0.6, swing: float = 0.5, waves: float = 0.5) -> Rhythm | None:
    """A slow pattern that the loss repeats every epoch, large against its level; a fixed order of like batches repeats
    only the quick differences between them, which do not count."""
    if not course.finite or not len(course.loss) or np.diff(course.steps).max(initial=1) > 1:
        return None
    found = rhythm(course.loss, course.per_epoch)
    if found is None or found.agreement < agreement or keeps(course) or (found.waves < waves and not forgets(course)):
        return None
    level = max(float(np.median(course.loss)), 1e-12)
    return found if found.swing > max(swing * level, 4 * course.noise / np.sqrt(found.periods)) else None
