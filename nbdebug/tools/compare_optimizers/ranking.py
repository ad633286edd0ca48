"""Rank the candidates: which learn, which are stable, which are significantly better, and which are tied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, normal_quantile, student_quantile
from nbdebug.statistics.time_series import bin_means, bootstrap_means, noise_level
from nbdebug.tools.compare_optimizers.result import (
    MAX_SEGMENTS,
    CandidateResult,
    CandidateRun,
    ComparisonVerdict,
    smooth_losses,
)
from nbdebug.training.divergence import WINDOW_SHARE

LossArray = NDArray[np.float64]
_FINAL_SHARE = 0.2  # share of the steps whose mean loss is the final loss
_MIN_STEPS_AVERAGED = 5
_MAX_RISE = 0.25  # share of the total decrease: a smoothed loss that rises by more is unstable
_NOISE_FACTOR = 8.0  # standard deviations of the smoothed loss; its extremes are about four apart by chance
_TIE_MARGIN = 0.02  # share of the total decrease: final losses that differ by less are tied, even if significant
_MIN_DECREASE_IN_SPREADS = 0.1  # share of the standard deviation between batches: a smaller decrease does not count
_STILL_DECREASING_SHARE = (
    0.05  # share of the total decrease within the last segment: with more, the loss is still decreasing
)


def mean_and_half_width(by_seed: Sequence[LossArray]) -> tuple[float, float]:
    """Return the mean and the half-width of its 95% interval, from a series of values for each seed.

    The larger of two errors is used: between the seeds, by Student's t, and within them, by block bootstrap. The error
    between seeds alone would be close to zero if two of three happen to agree.
    """
    means = np.array([values.mean() for values in by_seed])
    within = (
        normal_quantile(CONFIDENCE_LEVEL)
        * sqrt(sum(float(bootstrap_means(values).std()) ** 2 for values in by_seed if len(values) > 1))
        / len(by_seed)
    )
    if len(by_seed) < 2:
        return float(means.mean()), within
    between = student_quantile(len(means) - 1) * float(means.std(ddof=1)) / sqrt(len(means))
    return float(means.mean()), max(within, between)


def is_better(first: Sequence[LossArray], second: Sequence[LossArray], margin: float = 0.0) -> bool:
    """Check whether the first values are significantly lower, by more than ``margin``, paired by seed and step."""
    difference, half_width = mean_and_half_width([a - b for a, b in zip(first, second, strict=False)])
    return difference + half_width < 0 and difference < -margin


def rank_numbers(scores: Sequence[Sequence[LossArray] | None], margin: float = 0.0) -> list[int]:
    """Return, for each candidate, one plus the number of better ones; equal ranks are ties.

    A candidate without scores ranks last.
    """
    scored = [score for score in scores if score is not None]
    numbers = []
    for score in scores:
        better = (
            scored
            if score is None
            else [other for other in scored if other is not score and is_better(other, score, margin)]
        )
        numbers.append(1 + len(better))
    return numbers


def mean_score(score: Sequence[LossArray] | None) -> float:
    """Return the mean over the seeds, by which ties are ordered; infinite without scores."""
    return float(np.mean([values.mean() for values in score])) if score else inf


@dataclass(frozen=True)
class InitialLosses:
    """Losses before any step, by seed: of as many batches as the final segment has, and of the validation sample."""

    train: tuple[tuple[float, ...], ...] = ()
    val: tuple[tuple[float, ...], ...] = ()


def final_step_count(steps: int) -> int:
    """Return the number of steps at the end that are averaged."""
    return min(steps, max(_MIN_STEPS_AVERAGED, round(_FINAL_SHARE * steps)))


def rank_results(
    results: Sequence[CandidateResult], start: InitialLosses, steps: int, criterion: Literal["train", "val"]
) -> list[CandidateResult]:
    """Return the candidates with state, losses and rank, best first; ties are ordered by stability, then by loss."""
    scores = [_ranking_scores(result, steps, criterion) for result in results]
    numbers = rank_numbers(
        scores, _TIE_MARGIN * _best_decrease(scores, start.val if criterion == "val" else start.train)
    )
    min_fall = _min_decrease(results, start, steps)
    ranked = [
        replace(
            _with_state(result, start, steps, min_fall), rank=rank if result.runs else 0, error=_score_half_width(score)
        )
        for result, score, rank in zip(results, scores, numbers, strict=True)
    ]
    by_rank = sorted(zip(ranked, scores, strict=True), key=lambda pair: _sort_key(*pair))
    return [result for result, _ in by_rank]


def _sort_key(result: CandidateResult, score: Sequence[LossArray] | None) -> tuple[bool, int, bool, bool, float]:
    """Return the sort key; among ties, candidates that learn and are stable come first."""
    return not result.runs, result.rank, result.state != "learns", not result.stable, mean_score(score)


def _best_decrease(scores: Sequence[Sequence[LossArray] | None], start: Sequence[Sequence[float]]) -> float:
    """Return the decrease of the loss by the best candidate."""
    if not start or all(seed_values is None for seed_values in scores):
        return 0.0
    return max(0.0, float(np.mean([np.mean(seed_values) for seed_values in start])) - min(map(mean_score, scores)))


def _min_decrease(results: Sequence[CandidateResult], start: InitialLosses, steps: int) -> float:
    """Return the minimum decrease of the training loss from which a candidate counts as learning."""
    largest = _best_decrease(
        [None if item.diverged_runs else _final_losses(item.runs, steps) or None for item in results], start.train
    )
    return max(
        _TIE_MARGIN * largest,
        _MIN_DECREASE_IN_SPREADS * max((float(np.std(item)) for item in start.train), default=0.0),
    )


def _ranking_scores(result: CandidateResult, steps: int, criterion: str) -> list[LossArray] | None:
    """Return the losses to rank by, one array per seed; None if the loss diverged or no run has ended."""
    return (
        None
        if result.diverged_runs
        else (
            _final_losses(result.runs, steps) if criterion == "train" else _final_validation_losses(result.runs, steps)
        )
        or None
    )


def _final_losses(runs: Sequence[CandidateRun], steps: int) -> list[LossArray]:
    """Return the losses of the final segment of each finished run."""
    return [np.array(run.losses[-final_step_count(steps) :]) for run in runs if run.ended == "finished"]


def _final_validation_losses(runs: Sequence[CandidateRun], steps: int) -> list[LossArray]:
    """Return the losses of the validation sample after the last step of each run."""
    return [np.array(run.validations[-1][1]) for run in runs if run.validations and run.validations[-1][0] == steps]


def _score_half_width(score: Sequence[LossArray] | None) -> float | None:
    """Return the half-width of the confidence interval of a score, or None."""
    return mean_and_half_width(score)[1] if score else None


def _with_state(result: CandidateResult, start: InitialLosses, steps: int, min_fall: float) -> CandidateResult:
    """Return the candidate with its state, its stability and its final losses."""
    final, final_validation = _final_losses(result.runs, steps), _final_validation_losses(result.runs, steps)
    if result.diverged_runs:
        return replace(result, state="diverges", stable=False)
    result = replace(
        result,
        train=_mean_over_seeds(final),
        val=_mean_over_seeds(final_validation),
        stable=all(map(is_stable, result.runs)),
    )
    if not final:
        return result
    initial = [np.array(values) for values in start.train]
    learns = is_better(final, initial, min_fall)
    return replace(
        result,
        state="learns" if learns else "does not learn",
        still_decreasing=learns and _is_still_decreasing(final, initial),
    )


def _mean_over_seeds(by_seed: Sequence[LossArray]) -> float | None:
    return float(np.mean([values.mean() for values in by_seed])) if by_seed else None


def _is_still_decreasing(final: Sequence[LossArray], initial: Sequence[LossArray]) -> bool:
    """Check whether the loss still decreased significantly within the final segment, and by more than a little."""
    half = len(final[0]) // 2
    early, late = [values[:half] for values in final], [values[-half:] for values in final]
    total_decrease = (_mean_over_seeds(initial) or 0.0) - (_mean_over_seeds(final) or 0.0)
    return (
        half > 0
        and is_better(late, early)
        and (_mean_over_seeds(early) or 0.0) - (_mean_over_seeds(late) or 0.0)
        > _STILL_DECREASING_SHARE * total_decrease
    )


def is_stable(run: CandidateRun) -> bool:
    """Check that the smoothed loss never rose by more than a share of its decrease, beyond noise."""
    if run.diverged or len(run.losses) < _MIN_STEPS_AVERAGED:
        return not run.diverged
    losses = bin_means(np.array(run.losses), MAX_SEGMENTS)
    curve = smooth_losses(run.losses)
    rise = float((curve - np.minimum.accumulate(curve)).max())
    total_decrease = float(np.median(losses[:_MIN_STEPS_AVERAGED]) - curve.min())
    # A Gaussian of width w averages about 3.5 w values.
    averaged = 3.5 * max(1.5, WINDOW_SHARE * len(losses) / 2)
    return bool(rise <= max(_MAX_RISE * total_decrease, _NOISE_FACTOR * noise_level(losses) / averaged**0.5))


def comparison_verdict(results: Sequence[CandidateResult]) -> ComparisonVerdict:
    """Return the overall verdict; ``entries`` are sorted, best first."""
    compared = [result for result in results if result.state != "not run"]
    if len(compared) < 2 and len(results) > 1:
        return "stopped"
    if not compared or compared[0].state != "learns":
        return "none" if compared else "stopped"
    return "tie" if sum(result.rank == 1 for result in compared) > 1 else "clear"
