"""A rate for each candidate that has none: what a short range test of its own recommends."""

from __future__ import annotations

from dataclasses import replace

from nbdebug.setup import Setup
from nbdebug.tools.contest.candidates import Candidate, rate_of
from nbdebug.tools.lr_range.plan import Plan
from nbdebug.tools.lr_range.trial import Trial
from nbdebug.views.screen import Screen

STEPS, SEEDS = 80, 2


class Silent(Screen):
    """Shows nothing of a range test, and hands on whether Stop was pressed on the screen around it."""

    def __init__(self, around: Screen) -> None:
        self.around = around

    @property
    def stopped(self) -> bool:
        """Whether the Stop button was pressed."""
        return self.around.stopped


def found(setup: Setup, one: Candidate, accumulate: int, max_norm: float | None, screen: Screen) -> Candidate:
    """The candidate with a rate: its own, else the recommended one, else torch's default."""
    if one.rate is not None or one.origin != "found":
        return one
    built = one.build()
    plan = Plan(steps=STEPS, seeds=SEEDS, accumulate=accumulate, max_norm=max_norm)
    trial = Trial(setup, plan, (built, False, ""), None)
    trial.run(Silent(screen))
    if (rate := trial.result().suggestion) is not None:
        return replace(one, rate=rate)
    return replace(one, rate=rate_of(built), origin="default")
