"""Decides which treatments help, and puts it into sentences.

A cure reaches what the setup does not reach in four times the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from nbdebug.setup import Setup
from nbdebug.tools.treatments.result import TreatmentResult, Treatments, TreatmentVerdict
from nbdebug.tools.treatments.trial import LONGER, TrialRun

HIGH_SCORE = 0.97  # a setup that reaches it needs no treatment
_MIN_GAIN, _MIN_GAIN_SHARE = 0.03, 0.2  # absolute, and as a share of what is missing to a score of 1
_SUFFICIENT_SHARE = 0.75  # of what the best treatment gains: a smaller change that gains so much is the likely cause


def required_score(untreated: Sequence[TrialRun]) -> float:
    """Return the score that a treatment must exceed.

    It is the best final score without treatment, plus what the second half of that run has gained, since learning
    curves grow about as much with each doubling of the steps, plus a margin.
    """
    best = max(untreated, key=lambda run: run.score)
    if not np.isfinite(best.score):
        return -inf
    half = len(best.scores) // 2
    gained = best.score - float(np.mean(best.scores[max(half - 2, 0) : half])) if half else 0.0
    return best.score + max(gained, 0.0) + margin(best.score)


def margin(score: float) -> float:
    """Return by how much two scores must differ."""
    return max(_MIN_GAIN, _MIN_GAIN_SHARE * (1 - score))


def _early_score(untreated: Sequence[TrialRun]) -> float:
    """Return the best score without treatment after the number of steps that the treatments get."""
    scores = [run.scores[len(run.scores) // LONGER - 1] for run in untreated if len(run.scores) >= LONGER]
    return max(scores, default=-inf)


def is_faster(result: TreatmentResult, untreated: Sequence[TrialRun]) -> bool:
    """Check whether a treatment that cures nothing reaches more in the same number of steps."""
    level = _early_score(untreated)
    return result.outcome != "cures" and result.score > level + margin(level)


def cures(result: TreatmentResult, untreated: Sequence[TrialRun]) -> bool:
    """Check whether a treatment ran with each seed, and its worst run exceeds the best one without it by the margin."""
    scores = [run.score for run in result.runs]
    return len(scores) == len(untreated) and min(scores) > required_score(untreated)


def rank_treatments(results: Sequence[TreatmentResult], untreated_score: float) -> list[TreatmentResult]:
    """Return the treatments, best first; the smallest change that gains nearly as much as the best one leads.

    Broad treatments come last: they are the cause only if no other treatment cures.
    """
    ranked = sorted(results, key=lambda item: (item.treatment.broad, -item.score))
    if not ranked or not np.isfinite(ranked[0].score):
        return ranked
    base = untreated_score if np.isfinite(untreated_score) else min(0.0, ranked[0].score)
    sufficient = base + _SUFFICIENT_SHARE * (ranked[0].score - base)
    candidates = [item for item in results if item.treatment.broad == ranked[0].treatment.broad]
    smallest = next(item for item in candidates if item.score >= sufficient)
    return [smallest, *(item for item in ranked if item is not smallest)]


def treatment_verdict(
    untreated: Sequence[TrialRun],
    cured: Sequence[TreatmentResult],
    faster: Sequence[TreatmentResult],
    trained_score: float | None,
) -> TreatmentVerdict:
    """Return the verdict on the setup; ``trained_score`` is that of the user's own run, if it was long enough."""
    worst = min(run.score for run in untreated)
    if trained_score is not None and worst > trained_score + margin(trained_score):
        return "loop"
    if worst >= HIGH_SCORE:
        return "learns"
    if cured:
        return "cure"
    return "faster" if faster else "none"


def headline(result: Treatments) -> str:
    """Return the outcome in one or two sentences."""
    measure = f"the {result.measure}"
    if not result.untreated:
        return "Stopped before there were results."
    untreated = f"Without treatment, {measure} is {result.untreated_score:.3g} after {LONGER * result.steps} steps"
    if not np.isfinite(result.untreated_score):
        untreated = "Without treatment, the loss or the outputs become NaN or infinite"
    if result.verdict == "loop":
        return (
            f"After {result.trained_steps} steps of your own loop, {measure} is {result.trained_score:.3g}; after "
            f"{LONGER * result.steps} more of a plain loop it is {result.untreated_score:.3g}. "
            "The mistake is in your loop or in its schedule."
        )
    if result.verdict == "learns":
        return f"{untreated}: no treatment is needed."
    best = result.best
    if best is not None:
        return f"{untreated}; with {best.name} it is {best.score:.3g} after {result.steps} steps."
    if result.verdict == "faster":
        names = ", ".join(entry.name for entry in result.entries if entry.outcome)
        return f"{untreated}. No treatment exceeds this clearly; faster are: {names}."
    if result.verdict == "stopped":
        return f"{untreated}. Stopped before all treatments were tried."
    return f"{untreated}. None of {len(result.entries)} treatments exceeds this clearly."


def notes(result: Treatments, setup: Setup) -> Iterator[str]:
    """Yield how the treatments were compared, and the limits of the comparison."""
    if not result.untreated:
        return
    yield "copies are trained from your weights by a plain loop: zero_grad, forward, loss, backward, step"
    if result.reference_score is not None and result.verdict != "learns":
        yield f"a simple learner that shares no code with your model reaches {result.reference_score:.3g}"
    if setup.scheduler is not None:
        yield "your schedule is not used; the learning rate is the highest one of its schedule"
    if result.verdict in ("none", "faster"):
        yield "no treatment here changes the labels, the architecture or your own loop: see checkup() and watch()"
