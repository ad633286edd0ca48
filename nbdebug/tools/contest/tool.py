"""The tool: who takes part, on what terms, and the contest itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdebug.setup import Setup
from nbdebug.tools.contest import picture
from nbdebug.tools.contest.candidates import candidates
from nbdebug.tools.contest.result import Contest
from nbdebug.tools.contest.trial import Trial
from nbdebug.tools.lr_range.plan import Plan, whole
from nbdebug.views.screen import show

FEWEST_STEPS, MOST_STEPS, MOST_SEEDS = 10, 10_000, 20
STEPS, SEEDS = 200, 3


def compare_optimizers(
    setup: Setup,
    optimizers: Any = None,
    schedules: Any = None,
    *,
    steps: int = STEPS,
    seeds: int = SEEDS,
    rates: Mapping[str, float] | None = None,
    accumulate: int = 1,
    max_norm: float | None = None,
) -> Contest:
    """Which optimizers and schedules converge, which are stable, and which are better beyond chance.

    Each trains ``steps`` steps from the user's weights under each seed, on the same batches, at its own rate. The
    user's own objects are trained and put back after each run. An interrupt in a notebook is a Stop and gives what
    there is; elsewhere it is raised. Raises SetupError for what cannot take part or be run.
    """
    whole("steps", steps, FEWEST_STEPS, MOST_STEPS)
    whole("seeds", seeds, 1, MOST_SEEDS)
    Plan(accumulate=accumulate, max_norm=max_norm)
    trial = Trial(setup, candidates(setup, optimizers, schedules, rates), steps, seeds, accumulate, max_norm)
    with show(picture.view(trial.result(), "begins")) as screen:
        trial.run(screen)
        result = trial.result()
        screen.finish(result)
    return result
