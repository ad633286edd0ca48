"""What training and validation samples say of each other, both measured in eval mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.curves.course import HIGH_SCORE, Course
from nbdebug.curves.smoothing import Curve


@dataclass(frozen=True)
class Turn:
    """Where the validation loss was lowest, what it was then and is at the end, beside the training loss at the end."""

    step: int
    lowest: float
    last: float
    train: float


def overfitting(course: Course, rise: float = 0.1, evals: int = 4) -> Turn | None:
    """Whether the validation loss turned up, for two measurements at least, while the training loss kept falling.

    Fixed samples are read where they were measured often enough, else the user's own validation; where there is
    neither, a validation loss that ends over its own beginning and a constant guess. A high score makes it moot.
    """
    if course.val.last_score is not None and course.val.last_score >= HIGH_SCORE:
        return None
    for steps, train, val in curves(course):
        whole = len(train) == len(val) and bool(np.isfinite([*train, *val]).all())
        if whole and len(val) >= evals:
            return turned(course, steps, train, val, rise)
    return worsened(course)


def curves(course: Course) -> list[tuple[Curve, Curve, Curve]]:
    """Steps, training and validation loss: of fixed samples, and as the user's loop has them."""
    own = course.own
    return [(course.val.steps, course.train.loss, course.val.loss), (own.steps, own.score, own.loss)]


def turned(course: Course, steps: Curve, train: Curve, val: Curve, rise: float) -> Turn | None:
    """Whether a pair of curves comes apart: a rise counts by its share of the lowest value and of a constant guess."""
    at, base = int(val.argmin()), course.chance if course.chance is not None else val[0]
    after = val[at + 1 :]
    if len(after) < 2 or at > 0.75 * (len(val) - 1) or base <= 0:
        return None
    last = float(after[-2:].mean())
    slope = np.polyfit(np.arange(len(val) - at), val[at:], 1)[0]
    rose = last - val[at] > max(rise * val[at], 0.03 * base) and slope > 0
    fell = train[-1] < 0.7 * train[at] or train[-1] < 0.02 * base
    gap = last - train[-1] > max(0.5 * last, 0.1 * base)
    return Turn(int(steps[at]), float(val[at]), last, float(train[-1])) if rose and fell and gap else None


def worsened(course: Course) -> Turn | None:
    """Whether validation samples cost more at the end than before training, while training samples were learned."""
    train, val = course.train.loss, course.val.loss
    if len(val) < 2 or len(train) != len(val) or not np.isfinite([*train, *val]).all() or course.chance is None:
        return None
    over = val[-1] > 1.15 * max(val[0], course.chance) and train[-1] < 0.5 * course.chance
    return Turn(int(course.val.steps[0]), float(val[0]), float(val[-1]), float(train[-1])) if over else None


@dataclass(frozen=True)
class Better:
    """Training and validation loss of fixed samples, in eval mode, at the end, and whether training is still poor."""

    train: float
    val: float
    poor: bool


def validation_better(course: Course) -> Better | None:
    """Whether validation samples came to be easier by half, at each of the last measurements, than they began."""
    train, val = course.train.loss, course.val.loss
    if len(val) < 2 or len(train) != len(val) or not np.isfinite([*train, *val]).all() or not course.positive:
        return None
    several = min(3, len(val) - 1)
    ratio, clear = (0.5, 0.2) if several == 3 else (0.35, 0.25)
    base = course.chance if course.chance is not None else train[0]
    usual = min(1.0, float(val[0] / train[0])) if train[0] > 0 else 1.0
    late, then = train[-several:], val[-several:]
    easier = bool(((then < ratio * usual * late) & (late - then > 0.1 * base)).all())
    gap = score_gap(course, several)
    poor = gap > 0.1 and course.train.last_score is not None and course.train.last_score < 0.85
    return Better(float(train[-1]), float(val[-1]), poor) if easier or (gap > clear and poor) else None


def score_gap(course: Course, evals: int) -> float:
    """By how much the validation score was the better one at each of the last measurements; 0 where it was not."""
    train, val = course.train.score[-evals:], course.val.score[-evals:]
    return max(0.0, float((val - train).min())) if len(train) == len(val) == evals else 0.0
