"""The search for a rate that is better than the rates on both of its sides."""

from __future__ import annotations

from collections.abc import Sequence

from nbdebug.tools.lr_range.confirmation_run import ConfirmationRun, is_worse
from nbdebug.tools.lr_range.recommendation import round_significant

_RATE_STEP = 2.0  # ratio of one rate to the next
_FAILURE_STEP = 4.0  # the same, as long as every training fails
MAX_RUNS = 10  # confirmation runs of one schedule


def next_rate(sweep_rate: float, runs: Sequence[ConfirmationRun]) -> float | None:
    """Return the next rate to train at, or None when no further run is needed or allowed.

    A side is open until its last rate is clearly worse than the best. The next rate lies on the open side with fewer
    runs beyond the best one, and above it if both have as many.
    """
    if not runs:
        return sweep_rate
    if len(runs) >= MAX_RUNS or not runs[-1].is_complete:
        return None
    ordered, best_run = sorted(runs, key=lambda run: run.rate), find_best_run(runs)
    if best_run is None:
        return round_significant(ordered[0].rate / _FAILURE_STEP)
    runs_below = ordered.index(best_run)
    runs_above = len(ordered) - 1 - runs_below
    is_open_above, is_open_below = (not is_worse(ordered[end], best_run) for end in (-1, 0))
    if is_open_above and (runs_above <= runs_below or not is_open_below):
        return round_significant(ordered[-1].rate * _RATE_STEP)
    return round_significant(ordered[0].rate / _RATE_STEP) if is_open_below else None


def find_best_run(runs: Sequence[ConfirmationRun]) -> ConfirmationRun | None:
    """Return the complete run with the lowest final loss."""
    return min(
        (run for run in runs if run.is_complete and not run.has_failed),
        key=lambda run: run.final_loss,
        default=None,
    )


def open_side(runs: Sequence[ConfirmationRun], best_run: ConfirmationRun) -> ConfirmationRun | None:
    """Return the highest or lowest run if it is not worse than the best, so that there is no bracket; else None."""
    extremes = max(runs, key=lambda run: run.rate), min(runs, key=lambda run: run.rate)
    return next((run for run in extremes if not is_worse(run, best_run)), None)
