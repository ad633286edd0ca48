"""What the runs come to: who learns, who is stable, who is better, and who cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nbdebug.curves.noise import spread
from nbdebug.curves.smoothing import binned
from nbdebug.tools.contest.band import MOST, calm
from nbdebug.tools.contest.ranks import Values, interval, is_better, middle, ranks
from nbdebug.tools.contest.result import Entry, Run, Verdict
from nbdebug.tools.lr_range.smoothing import SHARE

LAST = 0.2  # of the steps: the stretch whose mean is the loss at the end
FEWEST = 5
RISE = 0.25  # of the way down: a smoothed loss that rises by more is not stable
CHANCE = 8.0  # standard deviations of the smoothed loss: its highest and lowest of many lie some four apart by chance
ALIKE = 0.02  # of the way down: losses at the end that differ by less are a tie, however sure the difference is
OF_SPREAD = 0.1  # of the standard deviation between batches: a fall of less is nothing, however sure it is
STILL = 0.05  # of the way down within the last stretch: falling by more, the loss is still falling


@dataclass(frozen=True)
class Start:
    """The losses before any step, by seed: of as many batches as the last stretch has, and of the sample."""

    train: tuple[tuple[float, ...], ...] = ()
    val: tuple[tuple[float, ...], ...] = ()


def stretch(steps: int) -> int:
    """How many steps at the end are averaged."""
    return min(steps, max(FEWEST, round(LAST * steps)))


def judged(entries: Sequence[Entry], start: Start, steps: int, by: Literal["train", "val"]) -> list[Entry]:
    """The entries with state, losses and rank, the best first; of those that tie the stable ones, then the lowest."""
    scores = [scores_of(one, steps, by) for one in entries]
    places = ranks(scores, ALIKE * way_down(scores, start.val if by == "val" else start.train))
    least = smallest_fall(entries, start, steps)
    found = [
        replace(described(one, start, steps, least), rank=place if one.runs else 0, error=error_of(score))
        for one, score, place in zip(entries, scores, places, strict=True)
    ]
    by_place = sorted(zip(found, scores, strict=True), key=lambda each: place_of(*each))
    return [one for one, _ in by_place]


def place_of(one: Entry, score: Sequence[Values] | None) -> tuple[bool, int, bool, bool, float]:
    """What entries are put in order by; among ties what learns and is stable goes first."""
    return not one.runs, one.rank, one.state != "learns", not one.stable, middle(score)


def way_down(scores: Sequence[Sequence[Values] | None], start: Sequence[Sequence[float]]) -> float:
    """How far the best candidate brought the loss down."""
    if not start or all(one is None for one in scores):
        return 0.0
    return max(0.0, float(np.mean([np.mean(one) for one in start])) - min(map(middle, scores)))


def smallest_fall(entries: Sequence[Entry], start: Start, steps: int) -> float:
    """From which fall of the training loss on a candidate learns: beside the best fall, and the spread of batches."""
    best = way_down([None if one.lost else ends(one.runs, steps) or None for one in entries], start.train)
    return max(ALIKE * best, OF_SPREAD * max((float(np.std(one)) for one in start.train), default=0.0))


def scores_of(one: Entry, steps: int, by: str) -> list[Values] | None:
    """What a candidate is ranked by, an array for each seed; None where the loss was lost or nothing has ended."""
    return None if one.lost else (ends(one.runs, steps) if by == "train" else looks(one.runs, steps)) or None


def ends(runs: Sequence[Run], steps: int) -> list[Values]:
    """The losses of the last stretch of each run that came to its end."""
    return [np.array(one.losses[-stretch(steps) :]) for one in runs if one.ended == "finished"]


def looks(runs: Sequence[Run], steps: int) -> list[Values]:
    """The losses of the validation sample after the last step of each."""
    return [np.array(one.validations[-1][1]) for one in runs if one.validations and one.validations[-1][0] == steps]


def error_of(score: Sequence[Values] | None) -> float | None:
    """The half-width of the interval of a score; unknown for what has none."""
    return interval(score)[1] if score else None


def described(one: Entry, start: Start, steps: int, least: float) -> Entry:
    """An entry with its state, its stability and its losses at the end."""
    last, seen = ends(one.runs, steps), looks(one.runs, steps)
    if one.lost:
        return replace(one, state="diverges", stable=False)
    one = replace(one, train=mean(last), val=mean(seen), stable=all(map(is_stable, one.runs)))
    if not last:
        return one
    before = [np.array(each) for each in start.train]
    learns = is_better(last, before, least)
    return replace(one, state="learns" if learns else "does not learn", falling=learns and falls(last, before))


def mean(found: Sequence[Values]) -> float | None:
    """The mean over the seeds."""
    return float(np.mean([one.mean() for one in found])) if found else None


def falls(last: Sequence[Values], before: Sequence[Values]) -> bool:
    """Whether the loss was still falling within the last stretch, beyond chance and by more than a little."""
    half = len(last[0]) // 2
    early, late = [one[:half] for one in last], [one[-half:] for one in last]
    way = (mean(before) or 0.0) - (mean(last) or 0.0)
    return half > 0 and is_better(late, early) and (mean(early) or 0.0) - (mean(late) or 0.0) > STILL * way


def is_stable(run: Run) -> bool:
    """Whether the smoothed loss of a run never rose by more than a part of its way down, noise aside."""
    if run.lost or len(run.losses) < FEWEST:
        return not run.lost
    losses = binned(np.array(run.losses), MOST)
    curve = calm(run.losses)
    rise = float((curve - np.minimum.accumulate(curve)).max())
    way = float(np.median(losses[:FEWEST]) - curve.min())
    # A Gaussian of width w averages about 3.5 w values.
    averaged = 3.5 * max(1.5, SHARE * len(losses) / 2)
    return bool(rise <= max(RISE * way, CHANCE * spread(losses) / averaged**0.5))


def verdict(entries: Sequence[Entry]) -> Verdict:
    """What the contest as a whole says of its entries, the best first."""
    compared = [one for one in entries if one.state != "not run"]
    if len(compared) < 2 and len(entries) > 1:
        return "stopped"
    if not compared or compared[0].state != "learns":
        return "none" if compared else "stopped"
    return "tie" if sum(one.rank == 1 for one in compared) > 1 else "clear"
