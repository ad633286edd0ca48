"""Confirmation runs: trainings at the recommended rate and below it, and the rate that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import floor, log10, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, normal_quantile
from nbdebug.statistics.time_series import bootstrap_means
from nbdebug.tools.lr_range.data import Suggestion
from nbdebug.tools.lr_range.recommendation import Recommendation, round_significant

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.data import SweepEnd

_RunVerdict = Literal["kept", "lowest", "as good", "clearly worse", "lost", "stopped"]
_Outcome = Literal["confirmed", "lowered", "not told apart", "lost", "stopped"]
_FINAL_PART_DIVISOR = 3  # the last 1/3 of the steps is compared
_OPENING_STEPS = 5  # the initial loss is the median of these steps
_RATE_STEP = sqrt(2)  # ratio of one rate to the next
_MIN_STEPS_DOWN = 2  # steps down that are always made; more of them only while each improves on the one before
_MAX_RUNS = 6  # confirmation runs


@dataclass(frozen=True)
class ConfirmationRun:
    """A training at one constant rate, from the same weights and on the same batches as the other runs.

    ``losses`` and ``smooth`` hold one value per step, as in a sweep, without non-finite losses.
    """

    rate: float
    losses: tuple[float, ...] = field(repr=False)
    smooth: tuple[float, ...] = field(repr=False)
    ended: SweepEnd = "finished"

    @property
    def is_complete(self) -> bool:
        """True if the run was not stopped by the user."""
        return self.ended not in ("stopped", "interrupted")

    @property
    def has_failed(self) -> bool:
        """True if the loss diverged, or ends no lower than it began."""
        return self.ended in ("diverged", "not finite") or self.final_loss >= float(
            np.median(self.losses[:_OPENING_STEPS])
        )

    @property
    def final_losses(self) -> NDArray[np.float64]:
        """The losses of the last third."""
        return np.asarray(self.losses[-max(1, len(self.losses) // _FINAL_PART_DIVISOR) :], np.float64)

    @property
    def final_loss(self) -> float:
        """The mean loss of the last third; NaN without any."""
        return float(self.final_losses.mean()) if self.losses else float("nan")


@dataclass(frozen=True)
class Confirmation:
    """The outcome of training at the recommended rate and below it, from the highest rate to the lowest.

    ``sweep_rate`` is the rate recommended by the sweeps, ``kept_rate`` the final recommendation, None if every rate
    diverged. ``outcome`` is "confirmed"; "lowered" if the rate was clearly worse; "not told apart" if a lower one did
    as well within the noise, and so is kept; "lost"; or "stopped" before two runs were complete. ``said`` describes the
    outcome.
    """

    sweep_rate: float
    kept_rate: float | None
    outcome: _Outcome
    said: str
    trainings: tuple[ConfirmationRun, ...] = ()

    @property
    def comparisons(self) -> list[RunComparison]:
        """A comparison of all runs."""
        best_run = _find_best_run(self.trainings)
        kept_rate = None if self.outcome == "stopped" else self.kept_rate
        return [_compare_run(run, best_run, run.rate == kept_rate) for run in self.trainings]


@dataclass(frozen=True)
class RunComparison:
    """The final loss of one run, its excess over the lowest one, and a verdict.

    ``half_width`` is the half-width of the 95 % interval of ``excess``; unknown values are None. The excess of an "as
    good" run is within chance.
    """

    rate: float
    final_loss: float | None
    excess: float | None
    half_width: float | None
    verdict: _RunVerdict

    @property
    def excess_text(self) -> str:
        """The excess over the lowest run with its interval; empty for the lowest."""
        return _format_interval(self.excess, self.half_width) if self.excess and self.half_width is not None else ""

    def __str__(self) -> str:
        excess_part = f", {self.excess_text} above the lowest loss" if self.excess_text else ""
        loss_part = f", loss {self.final_loss:.3g}{excess_part}" if self.final_loss is not None else ""
        return f"trained at {self.rate:.2g}: {self.verdict}{loss_part}"


def _format_interval(value: float, half_width: float) -> str:
    """Return a value with the half-width of its interval, both rounded to the second digit of the latter."""
    digits = max(0, 1 - floor(log10(half_width))) if half_width > 0 else 4
    return f"{value:.{digits}f} ± {half_width:.{digits}f}"


def _compare_run(run: ConfirmationRun, best_run: ConfirmationRun | None, is_kept: bool) -> RunComparison:
    if not run.is_complete or run.has_failed or best_run is None:
        return RunComparison(run.rate, None, None, None, "lost" if run.is_complete else "stopped")
    difference, half_width = _mean_excess(run, best_run)
    verdict: _RunVerdict = "lowest" if run is best_run else "clearly worse" if difference > half_width else "as good"
    return RunComparison(run.rate, run.final_loss, difference, half_width, "kept" if is_kept else verdict)


def _mean_excess(run: ConfirmationRun, reference: ConfirmationRun) -> tuple[float, float]:
    """Return the mean excess of a run's final losses over another's, and the half-width of its 95 % interval.

    Both runs use the same batches, so the batch effect cancels; a block bootstrap preserves the autocorrelation of the
    differences (Künsch 1989, doi:10.1214/aos/1176347265). The interval covers the noise of this batch order only.
    """
    differences = run.final_losses - reference.final_losses
    return float(differences.mean()), normal_quantile(CONFIDENCE_LEVEL) * float(bootstrap_means(differences).std())


def is_worse(run: ConfirmationRun, reference: ConfirmationRun) -> bool:
    """Return whether a run ends higher than another beyond noise, or failed while the other did not."""
    if run.has_failed or reference.has_failed:
        return run.has_failed and not reference.has_failed
    difference, half_width = _mean_excess(run, reference)
    return difference > half_width


def _find_best_run(trainings: Sequence[ConfirmationRun]) -> ConfirmationRun | None:
    """Return the complete run with the lowest final loss."""
    return min(
        (run for run in trainings if run.is_complete and not run.has_failed),
        key=lambda run: run.final_loss,
        default=None,
    )


def next_rate(sweep_rate: float, runs: Sequence[ConfirmationRun]) -> float | None:
    """Return the next rate to train at, or None when no further run is needed.

    Rates decrease from the recommended one until one is clearly worse than the best, or two steps were made and the
    last brought no gain. They never increase: a rate that is too high leads for some hundred steps before it is
    overtaken. On the problems of benchmarks/lr_range.py, taking a higher rate that leads after 200 steps spoiled three
    and saved one.
    """
    if not runs:
        return sweep_rate
    last_run, best_run = runs[-1], _find_best_run(runs)
    if len(runs) >= _MAX_RUNS or not last_run.is_complete:
        return None
    if best_run is None:
        return round_significant(last_run.rate / 2)
    if is_worse(last_run, best_run):
        return None
    improved = len(runs) > 1 and is_worse(runs[-2], last_run)
    return round_significant(last_run.rate / _RATE_STEP) if len(runs) <= _MIN_STEPS_DOWN or improved else None


def confirm(sweep_rate: float, runs: Sequence[ConfirmationRun]) -> Confirmation:
    """Return the outcome of the runs: the lowest rate that is not worse than the best is kept.

    At a constant rate the loss stops falling at a level that grows with the rate (Bottou, Curtis and Nocedal 2018,
    arXiv:1606.04838, theorem 4.6): of two rates that do not differ this early, the lower one has more to gain.
    """
    complete_runs, all_runs = [run for run in runs if run.is_complete], tuple(runs)
    best_run = _find_best_run(complete_runs)
    if len(complete_runs) < 2:
        return Confirmation(
            sweep_rate, sweep_rate, "stopped", f"Stopped before {sweep_rate:.2g} could be confirmed.", all_runs
        )
    if best_run is None:
        sentence = f"Training diverged at each rate from {sweep_rate:.2g} down to {complete_runs[-1].rate:.2g}."
        return Confirmation(sweep_rate, None, "lost", sentence, all_runs)
    kept_run = min((run for run in complete_runs if not is_worse(run, best_run)), key=lambda run: run.rate)
    return Confirmation(sweep_rate, kept_run.rate, *_decide_outcome(complete_runs, best_run, kept_run), all_runs)


def _decide_outcome(
    runs: Sequence[ConfirmationRun], best_run: ConfirmationRun, kept_run: ConfirmationRun
) -> tuple[_Outcome, str]:
    """Return the outcome and the sentence that describes it."""
    first_run = runs[0]
    if kept_run is first_run:
        return "confirmed", f"{first_run.rate:.2g} is confirmed: {_describe_deficit(runs[1], best_run)}."
    if is_worse(first_run, best_run):
        return (
            "lowered",
            f"Lowered from {first_run.rate:.2g} to {kept_run.rate:.2g}: {_describe_deficit(first_run, best_run)}.",
        )
    other_run = first_run if kept_run is best_run else best_run
    sentence = (
        f"{other_run.rate:.2g} and {kept_run.rate:.2g} do not differ significantly in {len(kept_run.losses)} steps"
    )
    return (
        "not told apart",
        f"{sentence} ({_format_excess(other_run, kept_run)}): the lower rate is kept, since it usually ends at a lower "
        "loss in a long run.",
    )


def _describe_deficit(run: ConfirmationRun, reference: ConfirmationRun) -> str:
    if run.has_failed:
        return f"at {run.rate:.2g} the loss diverges"
    difference = f"{_format_excess(run, reference)} higher than at {reference.rate:.2g}"
    return f"at {run.rate:.2g} the final loss is {difference}, after {len(run.losses)} steps"


def _format_excess(run: ConfirmationRun, reference: ConfirmationRun) -> str:
    return _format_interval(*_mean_excess(run, reference))


def apply_confirmation(recommendation: Recommendation, confirmation: Confirmation) -> Recommendation:
    """Adjust a recommendation of the sweeps to the outcome of the confirmation runs."""
    recommended, reasons = recommendation.recommended, (confirmation.said, *recommendation.reasons)
    if recommended is None or confirmation.outcome == "stopped":
        return replace(recommendation, reasons=reasons)
    if confirmation.kept_rate is None:
        return Recommendation("unclear", "Training diverged at every rate that the sweeps recommend.", reasons)
    recommended = _narrow_interval(recommended, confirmation, confirmation.kept_rate)
    if confirmation.outcome == "confirmed":
        return replace(recommendation, reasons=reasons, recommended=recommended)
    headline = (
        f"Take a learning rate of {confirmation.kept_rate:.2g}; the sweeps alone recommended "
        f"{confirmation.sweep_rate:.2g}."
    )
    return replace(recommendation, headline=headline, reasons=reasons, recommended=recommended)


def _narrow_interval(recommended: Suggestion, confirmation: Confirmation, rate_kept: float) -> Suggestion:
    """Return the kept rate, with its interval limited by the neighboring rates that are clearly worse."""
    worse_rates = [
        comparison.rate for comparison in confirmation.comparisons if comparison.verdict in ("clearly worse", "lost")
    ]
    low = max(
        (rate for rate in worse_rates if rate < rate_kept),
        default=min(recommended.low or rate_kept, rate_kept / _RATE_STEP),
    )
    high = min(
        (rate for rate in worse_rates if rate > rate_kept), default=max(recommended.high or rate_kept, rate_kept)
    )
    return replace(recommended, value=rate_kept, low=round_significant(low), high=round_significant(high))
