"""The outcome of the confirmation runs: the rate that is kept, and whether it is better than those on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from typing import Literal

from nbdebug.tools.lr_range.bracket import find_best_run, open_side
from nbdebug.tools.lr_range.confirmation_run import ConfirmationRun as ConfirmationRun
from nbdebug.tools.lr_range.confirmation_run import is_worse, mean_excess
from nbdebug.tools.lr_range.data import Suggestion
from nbdebug.tools.lr_range.recommendation import Recommendation, rate_name, round_significant
from nbdebug.tools.lr_range.schedules import Schedule

_RunVerdict = Literal["kept", "lowest", "as good", "clearly worse", "lost", "stopped"]
_Outcome = Literal["confirmed", "lowered", "raised", "not told apart", "open", "lost", "stopped"]


@dataclass(frozen=True)
class Confirmation:
    """The outcome of training at the rate that the sweeps give and at rates on both sides of it, in the order of time.

    ``sweep_rate`` is the rate of the sweeps, ``kept_rate`` the final recommendation, None if there is none. ``outcome``
    is "confirmed"; "lowered" or "raised" if the rate was clearly worse than a lower or a higher one; "not told apart"
    if others did as well within the noise, and the middle one of them is kept; "open" if the rates on one side are as
    good as far as they were tried; "lost" if every rate diverged; or "stopped" before the end. ``said`` describes the
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
        best_run = find_best_run(self.trainings)
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
    schedule: Schedule = "constant"

    @property
    def excess_text(self) -> str:
        """The excess over the lowest run with its interval; empty for the lowest."""
        return _format_interval(self.excess, self.half_width) if self.excess and self.half_width is not None else ""

    def __str__(self) -> str:
        excess_part = f", {self.excess_text} above the lowest loss" if self.excess_text else ""
        loss_part = f", loss {self.final_loss:.3g}{excess_part}" if self.final_loss is not None else ""
        way = "as one-cycle with the peak" if self.schedule == "one-cycle" else "at"
        return f"trained {way} {self.rate:.2g}: {self.verdict}{loss_part}"


def _format_interval(value: float, half_width: float) -> str:
    """Return a value with the half-width of its interval, both rounded to the second digit of the latter."""
    digits = max(0, 1 - floor(log10(half_width))) if half_width > 0 else 4
    return f"{value:.{digits}f} ± {half_width:.{digits}f}"


def _compare_run(run: ConfirmationRun, best_run: ConfirmationRun | None, is_kept: bool) -> RunComparison:
    if not run.is_complete or run.has_failed or best_run is None:
        return RunComparison(run.rate, None, None, None, "lost" if run.is_complete else "stopped", run.schedule)
    difference, half_width = mean_excess(run, best_run)
    verdict: _RunVerdict = "lowest" if run is best_run else "clearly worse" if is_worse(run, best_run) else "as good"
    return RunComparison(run.rate, run.final_loss, difference, half_width, "kept" if is_kept else verdict, run.schedule)


def confirm(sweep_rate: float, runs: Sequence[ConfirmationRun]) -> Confirmation:
    """Return the outcome of the runs: the middle rate of those that are as good as the best is kept.

    There is none unless a rate is worse on each side.
    """
    all_runs, best_run = tuple(runs), find_best_run(runs)
    if not all(run.is_complete for run in runs) or len(runs) < 2:
        return Confirmation(
            sweep_rate, sweep_rate, "stopped", f"Stopped before {sweep_rate:.2g} could be confirmed.", all_runs
        )
    if best_run is None:
        sentence = f"Training diverged at each rate from {sweep_rate:.2g} down to {runs[-1].rate:.2g}."
        return Confirmation(sweep_rate, None, "lost", sentence, all_runs)
    if open_run := open_side(runs, best_run):
        return Confirmation(sweep_rate, None, "open", _describe_open_side(runs, open_run, best_run), all_runs)
    good_runs = sorted((run for run in runs if not is_worse(run, best_run)), key=lambda run: run.rate)
    kept_run = _choose_run(good_runs)
    return Confirmation(sweep_rate, kept_run.rate, *_decide_outcome(runs, best_run, good_runs, kept_run), all_runs)


def _choose_run(good_runs: Sequence[ConfirmationRun]) -> ConfirmationRun:
    """Return the run in the middle of those that are as good as the best, in ascending order; the lower one of two.

    Noise widens this interval on both sides, so its ends are too low and too high. At a constant rate the loss stops
    falling at a level that grows with the rate (Bottou, Curtis and Nocedal 2018, arXiv:1606.04838, theorem 4.6): of two
    rates that do not differ this early, the lower one has more to gain.
    """
    return good_runs[(len(good_runs) - 1) // 2]


def _describe_open_side(runs: Sequence[ConfirmationRun], open_run: ConfirmationRun, best_run: ConfirmationRun) -> str:
    """Return the sentence that describes on which side no worse rate was found."""
    side = "highest" if open_run.rate == max(run.rate for run in runs) else "lowest"
    result = "the loss is the lowest" if open_run is best_run else f"the loss is as low as at {best_run.rate:.2g}"
    return f"At {open_run.rate:.2g}, the {side} rate that was tried, {result}: the best rate may be beyond it."


def _decide_outcome(
    runs: Sequence[ConfirmationRun],
    best_run: ConfirmationRun,
    good_runs: Sequence[ConfirmationRun],
    kept_run: ConfirmationRun,
) -> tuple[_Outcome, str]:
    """Return the outcome and the sentence that describes it; the first run is that of the sweeps."""
    first_run = runs[0]
    if kept_run is first_run:
        neighbors = _nearest_worse_runs(runs, best_run, kept_run)
        deficits = " and ".join(_describe_deficit(run, best_run) for run in neighbors)
        return "confirmed", f"{first_run.rate:.2g} is confirmed: {deficits}, after {len(best_run.losses)} steps."
    if is_worse(first_run, best_run):
        outcome: _Outcome = "lowered" if kept_run.rate < first_run.rate else "raised"
        change = f"{outcome.capitalize()} from {first_run.rate:.2g} to {kept_run.rate:.2g}"
        return outcome, f"{change}: {_describe_deficit(first_run, best_run)}, after {len(best_run.losses)} steps."
    return "not told apart", _describe_equal_runs(good_runs, kept_run)


def _describe_equal_runs(good_runs: Sequence[ConfirmationRun], kept_run: ConfirmationRun) -> str:
    """Return the sentence that says which rates did equally well, in ascending order, and why one of them is kept."""
    low, high = good_runs[0], good_runs[-1]
    if len(good_runs) == 2:
        return (
            f"{high.rate:.2g} and {low.rate:.2g} hardly differ in {len(kept_run.losses)} steps "
            f"({_format_excess(high, low)}): the lower rate is kept, since it usually ends at a lower loss in a long "
            "run."
        )
    kept = "the middle one" if len(good_runs) % 2 else "the lower of the two in the middle"
    return (
        f"{len(good_runs)} rates from {low.rate:.2g} to {high.rate:.2g} hardly differ in {len(kept_run.losses)} steps: "
        f"{kept}, {kept_run.rate:.2g}, is kept, since the best rate may lie on either side of it."
    )


def _nearest_worse_runs(
    runs: Sequence[ConfirmationRun], best_run: ConfirmationRun, kept_run: ConfirmationRun
) -> list[ConfirmationRun]:
    """Return the nearest worse runs below and above a rate; both exist where there is a bracket."""
    worse_runs = sorted((run for run in runs if is_worse(run, best_run)), key=lambda run: run.rate)
    below = [run for run in worse_runs if run.rate < kept_run.rate]
    above = [run for run in worse_runs if run.rate > kept_run.rate]
    return below[-1:] + above[:1]


def _describe_deficit(run: ConfirmationRun, reference: ConfirmationRun) -> str:
    if run.has_failed:
        return f"at {run.rate:.2g} the loss diverges"
    difference = f"{_format_excess(run, reference)} higher than at {reference.rate:.2g}"
    return f"at {run.rate:.2g} the final loss is {difference}"


def _format_excess(run: ConfirmationRun, reference: ConfirmationRun) -> str:
    return _format_interval(*mean_excess(run, reference))


def apply_confirmation(
    recommendation: Recommendation, confirmation: Confirmation, schedule: Schedule = "constant"
) -> Recommendation:
    """Adjust a recommendation of the sweeps to the outcome of the confirmation runs, which decide."""
    reasons, sweep_rate = (confirmation.said, *recommendation.reasons), confirmation.sweep_rate
    if confirmation.outcome == "stopped":
        return replace(recommendation, reasons=reasons)
    name = rate_name("lr", schedule)
    if confirmation.outcome == "lost":
        return Recommendation(
            "unclear", "Training diverged at every rate that was tried.", reasons, candidate=recommendation.candidate
        )
    if confirmation.kept_rate is None:
        headline = f"Training at several rates gives no clear {name}."
        return Recommendation("unclear", headline, reasons, candidate=recommendation.candidate)
    recommended = _bracketed_interval(recommendation.candidate, confirmation, confirmation.kept_rate)
    if confirmation.outcome == "confirmed" and recommendation.verdict == "clear":
        return replace(recommendation, reasons=reasons, recommended=recommended)
    headline = f"Take a {name} of {confirmation.kept_rate:.2g}; the sweeps alone gave {sweep_rate:.2g}."
    if confirmation.outcome == "confirmed":
        headline = f"Take a {name} of {confirmation.kept_rate:.2g}; training confirms it."
    return replace(
        recommendation,
        verdict="clear",
        headline=headline,
        reasons=(confirmation.said,),
        recommended=recommended,
    )


def _bracketed_interval(candidate: Suggestion | None, confirmation: Confirmation, kept_rate: float) -> Suggestion:
    """Return the kept rate, with the nearest rates that are clearly worse as its interval."""
    worse_rates = [
        comparison.rate for comparison in confirmation.comparisons if comparison.verdict in ("clearly worse", "lost")
    ]
    low = max((rate for rate in worse_rates if rate < kept_rate), default=kept_rate / 2)
    high = min((rate for rate in worse_rates if rate > kept_rate), default=kept_rate * 2)
    each = candidate.each if candidate is not None else ()
    return Suggestion("recommended", kept_rate, round_significant(low), round_significant(high), each)
