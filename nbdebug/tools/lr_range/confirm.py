"""Which rates are put to the proof beside the recommended one, which is kept, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from nbdebug.tools.lr_range.proof import Outcome, Proof, Training, best, excess, is_worse, measured
from nbdebug.tools.lr_range.recommend import Advice, significant
from nbdebug.tools.lr_range.result import Suggestion

STEP = sqrt(2)  # between one rate and the next
LOWER = 2  # steps down that are always allowed; more of them only as long as each does better than the one before
MOST = 6  # trainings


def next_rate(asked: float, trainings: Sequence[Training]) -> float | None:
    """The rate to train at next, None where enough were tried.

    They go down from the one that is asked about, until one does clearly worse than the best, or two steps were made
    and the last brought nothing. Never up: a rate that is too high leads for some hundred steps before it is overtaken.
    Of the problems of benchmarks/lr_range.py, taking a higher one that leads after 200 steps spoiled three and saved
    one.
    """
    if not trainings:
        return asked
    last, lowest = trainings[-1], best(trainings)
    if len(trainings) >= MOST or not last.is_whole:
        return None
    if lowest is None:
        return significant(last.rate / 2)
    if is_worse(last, lowest):
        return None
    improved = len(trainings) > 1 and is_worse(trainings[-2], last)
    return significant(last.rate / STEP) if len(trainings) <= LOWER or improved else None


def proved(asked: float, trainings: Sequence[Training]) -> Proof:
    """What the trainings come to: the lowest rate that does no worse than the best is kept.

    At a constant rate the loss stops falling at a height that grows with the rate (Bottou, Curtis and Nocedal 2018,
    arXiv:1606.04838, theorem 4.6): of two that cannot be told apart so early, the lower one has more to go.
    """
    whole, every = [one for one in trainings if one.is_whole], tuple(trainings)
    lowest = best(whole)
    if len(whole) < 2:
        return Proof(asked, asked, "stopped", f"Stopped before {asked:.2g} could be put to the proof.", every)
    if lowest is None:
        said = f"Each rate from {asked:.2g} down to {whole[-1].rate:.2g} was lost when it was trained at."
        return Proof(asked, None, "lost", said, every)
    kept = min((one for one in whole if not is_worse(one, lowest)), key=lambda one: one.rate)
    return Proof(asked, kept.rate, *judged(whole, lowest, kept), every)


def judged(whole: Sequence[Training], lowest: Training, kept: Training) -> tuple[Outcome, str]:
    """The outcome and what is said of it."""
    first = whole[0]
    if kept is first:
        return "confirmed", f"{first.rate:.2g} is confirmed: {worse(whole[1], lowest)}."
    if is_worse(first, lowest):
        return "lowered", f"Lowered from {first.rate:.2g} to {kept.rate:.2g}: {worse(first, lowest)}."
    other = first if kept is lowest else lowest
    said = f"{other.rate:.2g} and {kept.rate:.2g} could not be told apart in {len(kept.losses)} steps"
    return "not told apart", f"{said} ({between(other, kept)}): the lower one is kept, since it settles lower."


def worse(one: Training, other: Training) -> str:
    """By how much a training is worse than another, in words."""
    if one.is_lost:
        return f"at {one.rate:.2g} the loss is lost"
    beyond = f"{between(one, other)} higher than at {other.rate:.2g}"
    return f"at {one.rate:.2g} the loss ends {beyond}, after {len(one.losses)} steps"


def between(one: Training, other: Training) -> str:
    """The difference of two with its interval."""
    return measured(*excess(one, other))


def confirmed(advice: Advice, proof: Proof) -> Advice:
    """What the sweeps recommend in the light of the trainings."""
    found, reasons = advice.recommended, (proof.said, *advice.reasons)
    if found is None or proof.outcome == "stopped":
        return replace(advice, reasons=reasons)
    if proof.kept is None:
        return Advice("unclear", "No rate that the sweeps recommend could be trained at.", reasons)
    found = bounded(found, proof, proof.kept)
    if proof.outcome == "confirmed":
        return replace(advice, reasons=reasons, recommended=found)
    said = f"Take a learning rate of {proof.kept:.2g}; the sweeps alone would have said {proof.asked:.2g}."
    return replace(advice, headline=said, reasons=reasons, recommended=found)


def bounded(found: Suggestion, proof: Proof, kept: float) -> Suggestion:
    """The rate that is kept, with the interval cut off at the rates beside it that did clearly worse."""
    bad = [one.rate for one in proof.standings if one.word in ("clearly worse", "lost")]
    low = max((rate for rate in bad if rate < kept), default=min(found.low or kept, kept / STEP))
    high = min((rate for rate in bad if rate > kept), default=max(found.high or kept, kept))
    return replace(found, value=kept, low=significant(low), high=significant(high))
