"""What training and validation samples say of each other, both measured in eval mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.curves.course import HIGH_SCORE, Course


@dataclass(frozen=True)
class Turn:
    """Where the validation loss was lowest, what it was then and is at the end, beside the training loss at the end."""

    step: int
    lowest: float
    last: float
    train: float


def overfitting(course: Course, rise: float = 0.1, evals: int = 4) -> Turn | None:
    """Whether the validation loss turned up, for two measurements at least, while the training loss kept falling.

    A rise counts by its share of the lowest value and of a constant guess; a high score makes it moot.
    """
    train, val = course.train.loss, course.val.loss
    if len(val) < evals or len(train) != len(val) or not np.isfinite([*train, *val]).all():
        return None
    if course.val.last_score is not None and course.val.last_score >= HIGH_SCORE:
        return None
    at = int(val.argmin())
    after = val[at + 1 :]
    base = course.chance if course.chance is not None else val[0]
    if len(after) < 2 or at > 0.75 * (len(val) - 1) or base <= 0:
        return None
    last = float(after[-2:].mean())
    rose = (
        last - val[at] > max(rise * val[at], 0.03 * base) and np.polyfit(np.arange(len(val) - at), val[at:], 1)[0] > 0
    )
    fell = train[-1] < 0.7 * train[at] or train[-1] < 0.02 * base
    gap = last - train[-1] > max(0.5 * last, 0.1 * base)
    return Turn(int(course.val.steps[at]), float(val[at]), last, float(train[-1])) if rose and fell and gap else None


@dataclass(frozen=True)
class Better:
    """Training and validation loss of fixed samples, in eval mode, at the end, and whether training is still poor."""

    train: float
    val: float
    poor: bool


def validation_better(course: Course, ratio: float = 0.5, evals: int = 3) -> Better | None:
    """Whether validation samples came to be easier by half, at each of the last measurements, than they began."""
    train, val = course.train.loss, course.val.loss
    whole = len(train) == len(val) and bool(np.isfinite([*train, *val]).all())
    if len(val) < evals + 1 or not whole or not course.positive:
        return None
    base = course.chance if course.chance is not None else train[0]
    usual = min(1.0, float(val[0] / train[0])) if train[0] > 0 else 1.0
    easier = (val[-evals:] < ratio * usual * train[-evals:]) & (train[-evals:] - val[-evals:] > 0.1 * base)
    gap = score_gap(course, evals)
    poor = gap > 0.1 and course.train.last_score is not None and course.train.last_score < 0.85
    return Better(float(train[-1]), float(val[-1]), poor) if easier.all() or (gap > 0.2 and poor) else None


def score_gap(course: Course, evals: int) -> float:
    """By how much the validation score was the better one at each of the last measurements; 0 where it was not."""
    train, val = course.train.score[-evals:], course.val.score[-evals:]
    return max(0.0, float((val - train).min())) if len(train) == len(val) == evals else 0.0
