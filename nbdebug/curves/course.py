"""The course of a run: where its loss began, where it is, what it still gains, and what a constant guess would get."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.curves.noise import spread, standard_error
from nbdebug.curves.smoothing import Curve, binned, medians
from nbdebug.curves.travel import Travel, travel
from nbdebug.curves.trend import Trend, trend
from nbdebug.record import Record

HIGH_SCORE, SMALL_SHARE, SAMPLES = 0.97, 0.05, 256
WIDEST = 1.6  # in logarithm: how far the loss of the run may be from that of fixed samples in eval mode


@dataclass(frozen=True)
class Evals:
    """Loss and score of fixed samples of one split, in eval mode, by step."""

    steps: Curve
    loss: Curve
    score: Curve

    @property
    def last_score(self) -> float | None:
        """The last score, if there is any."""
        return float(self.score[-1]) if len(self.score) else None


@dataclass(frozen=True)
class Course:
    """What is known of the loss of a run.

    ``known`` says whether the loop minimizes the loss that is known of, up to a factor; ``majority`` is the share of
    the commonest class, 0 for real targets. ``start`` is its level before or at the first steps, ``end`` over the last
    fifth, with its standard error; ``best`` the lowest of all tenths. ``chance`` is what a constant guess gets, None
    where that cannot be compared with what the loop minimizes. ``late`` is the trend of the last quarter, ``half`` of
    the second half, ``whole`` of all.
    """

    steps: Curve
    loss: Curve
    start: float
    end: float
    error: float
    best: float
    noise: float
    chance: float | None
    late: Trend
    half: Trend
    whole: Trend
    train: Evals
    val: Evals
    own: Evals
    travel: Travel
    per_epoch: int
    known: bool = True
    majority: float | None = None

    @property
    def count(self) -> int:
        """How many steps the run had."""
        return int(self.steps[-1]) if len(self.steps) else 0

    @property
    def finite(self) -> bool:
        """Whether every loss was a finite number."""
        return bool(np.isfinite(self.loss).all())

    @property
    def positive(self) -> bool:
        """Whether the loss was never negative, so that zero is its lowest end."""
        return bool((self.loss >= 0).all())

    @property
    def reference(self) -> float | None:
        """What the loss is to be measured by: a constant guess, else the start; None for what has no lowest end."""
        if not self.positive:
            return None
        found = self.chance if self.chance is not None else self.start
        return found if np.isfinite(found) and found > 0 else None

    @property
    def share(self) -> float | None:
        """What is left of the loss, as a share of the reference."""
        return None if self.reference is None else self.end / self.reference

    @property
    def score(self) -> float | None:
        """The last score on fixed validation samples, else on fixed training samples."""
        return self.train.last_score if self.val.last_score is None else self.val.last_score

    @property
    def standing(self) -> str:
        """Where the loss ended, in words."""
        if self.share is None:
            return f"{self.end:.3g}"
        of = "what a constant guess gets" if self.chance is not None else "where it began"
        return f"{self.end:.3g}, {self.share:.0%} of {of}"

    @property
    def knows(self) -> bool | None:
        """Whether the training samples are told apart beyond what one constant answer does; None where that is open."""
        score = self.train.last_score
        if score is None or self.majority is None or self.majority == 1:
            return None
        luck = float(np.sqrt(self.majority * (1 - self.majority) / SAMPLES)) if self.majority else 0.02
        over = (score - self.majority) / luck
        return True if over > 3 else False if over < 1.5 else None

    @property
    def good(self) -> bool:
        """Whether it has arrived: a high score, or next to nothing left of the loss."""
        high = self.score is not None and self.score >= HIGH_SCORE
        return high or (self.share is not None and self.share <= SMALL_SHARE)

    @property
    def learned(self) -> float:
        """The share of the way from the start down to zero that lies behind, where there is such a way."""
        return (self.start - self.end) / self.start if self.positive and self.start > 0 else float("nan")


def course_of(record: Record) -> Course:
    """The course of a record, which must hold a loss."""
    steps, loss = (one.astype(np.float64) for one in record.series("loss"))
    whole = np.where(np.isfinite(loss), loss, np.nan)
    calm = whole[~np.isnan(whole)]
    train, val = evals(record, "train"), evals(record, "val")
    scale = comparable(steps, whole, train)
    chance = record.about.get("chance")
    tail = calm[-max(len(calm) // 5, min(3, len(calm))) :]
    first = train.loss[0] * scale if scale and len(train.loss) and train.steps[0] == 0 else head(calm)
    return Course(
        steps=steps,
        loss=loss,
        start=float(first),
        end=float(tail.mean()) if len(tail) else float("inf"),
        error=standard_error(tail),
        best=float(medians(calm, 10).min()) if len(calm) else float("inf"),
        noise=spread(calm),
        chance=float(chance) * scale if chance and chance > 0 and scale else None,
        late=trend(calm[-max(len(calm) // 4, min(6, len(calm))) :]),
        half=trend(calm[len(calm) // 2 :]),
        whole=trend(calm),
        train=train,
        val=val,
        own=own_evals(record, steps, whole),
        travel=travel(record),
        per_epoch=int(record.about.get("batches_per_epoch") or 0),
        known=scale > 0,
        majority=majority(record),
    )


def majority(record: Record) -> float | None:
    """The share of the commonest class among the fixed training samples; 0 for real targets, None for neither."""
    counts = record.about.get("label_counts")
    counts = list(counts.values()) if isinstance(counts, dict) else counts
    if counts is not None and len(counts) and sum(counts):
        return float(max(counts) / sum(counts))
    real = record.about.get("task") in ("regression", "reconstruction")
    return 0.0 if real and record.about.get("target_variance") else None


def own_evals(record: Record, steps: Curve, loss: Curve) -> Evals:
    """The user's own validation: its loss by step, and in place of a score the training loss of the steps before."""
    at, values = (one.astype(float) for one in record.series("eval_loss"))
    before = np.concatenate([[0.0], at[:-1]]) if len(at) else at
    spans = [loss[(steps > a) & (steps <= b)] for a, b in zip(before, at, strict=True)]
    return Evals(at, values, np.array([np.median(span) if len(span) else np.nan for span in spans]))


def head(values: Curve) -> float:
    """The level of the first values."""
    return float(np.median(values[:3])) if len(values) else float("inf")


def evals(record: Record, split: str) -> Evals:
    """What was measured of the fixed samples of a split."""
    steps, loss = record.series(f"sample_{split}_loss")
    score = record.series(f"sample_{split}_score")[1].astype(float)
    return Evals(steps.astype(float), loss.astype(float), np.where(np.isfinite(score), score, -np.inf))


def comparable(steps: Curve, loss: Curve, train: Evals) -> float:
    """What the loss of the loop is in units of the loss of fixed samples: 1, a constant factor, or 0 for neither.

    A loop may minimize something else than the loss that is known of, such as a reward; or divide it, when it
    accumulates gradients. Where its own steps lie far apart, it may lie as far from them.
    """
    if len(train.loss) < 2 or not len(steps):
        return 1.0
    there = ~np.isnan(loss)
    if not there.any():
        return 1.0
    steps, loss = steps[there], loss[there]
    around = [loss[np.argsort(np.abs(steps - at))[: 5 if at else 1]] for at in train.steps]
    near, lowest, highest = (np.array([of(one) for one in around]) for of in (np.median, np.min, np.max))
    fit = np.isfinite(train.loss) & (lowest > 0) & (train.loss > 0)
    if not fit.any():
        return 1.0 if not np.isfinite(train.loss).any() else 0.0
    ratios, apart = np.log(near[fit] / train.loss[fit]), np.log(highest[fit] / lowest[fit]) / 2
    middle = float(np.median(ratios))
    if (np.abs(ratios) < WIDEST + apart).all():
        return 1.0
    return float(np.exp(middle)) if (np.abs(ratios - middle) < WIDEST / 4 + apart).all() else 0.0


def quarters(course: Course) -> Curve:
    """Where the loss stood at the start and at the end of each quarter, by a mean over the steps around."""
    calm = course.loss[np.isfinite(course.loss)]
    half = max(2, len(calm) // 16)
    ends = [calm[max(0, at - half) : at + half].mean() for at in np.linspace(0, len(calm), 5).astype(int)]
    return np.array([max(course.start, float(ends[0])) if len(calm) > 64 else float(ends[0]), *ends[1:]])


def stretches(course: Course, most: int = 16) -> Curve:
    """The loss in stretches, by their means; only what is finite."""
    return binned(course.loss[np.isfinite(course.loss)], most)
