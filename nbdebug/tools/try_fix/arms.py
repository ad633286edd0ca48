"""The arms of an experiment: the setup with some changes, trained with each seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from nbdebug.setup import Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.statistics.intervals import Floats
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.change import SetupChange
from nbdebug.tools.try_fix.matched_run import MatchedRun, changed_copy, train_copy
from nbdebug.tools.try_fix.run_score import RunScore
from nbdebug.views.live import LiveScreen, Screen
from nbdebug.views.page import View

_SECONDS_BETWEEN_UPDATES = 0.5


@dataclass
class Arm:
    """The setup with some changes; without any it is the baseline. ``runs`` has one run for each seed so far."""

    name: str
    changes: tuple[SetupChange, ...]
    score: RunScore
    runs: list[MatchedRun] = field(default_factory=list)


class ArmRunner:
    """Trains all arms with one seed after the other, so that a stopped experiment has complete comparisons.

    With ``in_place``, the model itself is trained and restored.
    """

    def __init__(self, setup: Setup, arms: Sequence[Arm], steps: int, seeds: int, in_place: bool) -> None:
        self.setup, self.arms, self.steps, self.seeds, self.in_place = setup, arms, steps, seeds, in_place
        self.batches = arms[0].score.batches
        self.planned_steps = len(arms) * seeds * steps
        self.total_steps, self.stopped = 0, False
        self.started = self.last_update = time.perf_counter()

    def run(self, screen: Screen, make_view: Callable[[str], View]) -> None:
        """Run everything; an interrupt acts as Stop in a notebook, else it is raised."""
        try:
            for seed in range(self.seeds):
                for arm in self.arms:
                    if not self.stopped:
                        self._run_arm(arm, seed, screen, make_view)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise
        self._drop_incomplete_seeds()

    def changed_copy(self, changes: Sequence[SetupChange], seed: int = 0) -> AbstractContextManager[TreatedSetup]:
        """Return a block with a copy of the setup after some changes."""
        return changed_copy(self.setup, changes, self.batches, self.arms[0].score.loss_kind, seed, self.in_place)

    def _run_arm(self, arm: Arm, seed: int, screen: Screen, make_view: Callable[[str], View]) -> None:
        def should_stop(_: MatchedRun) -> bool:
            self.total_steps += 1
            self._update(screen, make_view, f"{arm.name}, seed {seed + 1} of {self.seeds}")
            self.stopped = self.stopped or screen.stopped
            return self.stopped

        with (
            self.changed_copy(arm.changes, seed) as treated,
            UserCodeErrors(lambda: f"in a run {arm.name}"),
        ):
            run = train_copy(treated, arm.score, seed, self.steps, should_stop)
        if run.ended != "stopped":
            arm.runs.append(run)

    def _drop_incomplete_seeds(self) -> None:
        complete = min(len(arm.runs) for arm in self.arms)
        for arm in self.arms:
            del arm.runs[complete:]

    def _update(self, screen: Screen, make_view: Callable[[str], View], status: str) -> None:
        now = time.perf_counter()
        if now - self.last_update < _SECONDS_BETWEEN_UPDATES:
            return
        self.last_update = now
        remaining = (now - self.started) / self.total_steps * (self.planned_steps - self.total_steps)
        if isinstance(screen, LiveScreen):
            screen.update(make_view(f"{status} · about {remaining:.0f} s of {self.planned_steps:,} steps left"))
        else:
            from nbdebug.views.kernel_bridge import report_progress  # imports the widgets

            report_progress(done=self.total_steps, total=self.planned_steps)


def score_differences(before: Sequence[MatchedRun], after: Sequence[MatchedRun]) -> Floats:
    """Return the difference of the scores of two arms for each seed."""
    return np.array([second.score - first.score for first, second in zip(before, after, strict=True)])
