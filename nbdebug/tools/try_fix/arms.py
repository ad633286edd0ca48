"""The arms of an experiment: the setup with some changes, trained with each seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

import numpy as np

from nbdebug.finding import Edit
from nbdebug.parallel import Workers, open_pool
from nbdebug.setup import Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.statistics.intervals import Floats
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.change import SetupChange
from nbdebug.tools.try_fix.matched_run import MatchedRun, changed_copy, train_copy
from nbdebug.tools.try_fix.program import Program, train_program
from nbdebug.tools.try_fix.run_score import RunScore
from nbdebug.views.live import LiveScreen, Screen
from nbdebug.views.page import View

_SECONDS_BETWEEN_UPDATES = 0.5


@dataclass
class Arm:
    """The setup with some changes; without any it is the baseline. ``runs`` has one run for each seed so far.

    With a ``program``, each run starts that as its source reads after the ``edits``, without other changes.
    """

    name: str
    changes: tuple[SetupChange, ...]
    score: RunScore
    runs: list[MatchedRun] = field(default_factory=list)
    program: Program | None = None
    edits: tuple[Edit, ...] = ()


class ArmRunner:
    """Trains all arms with one seed after the other, so that a stopped experiment has complete comparisons.

    With ``in_place``, the model itself is trained and restored. With ``workers``, they train several arms and seeds at
    the same time; each run is the same as without them, computed by one thread.
    """

    def __init__(
        self,
        setup: Setup,
        arms: Sequence[Arm],
        steps: int,
        seeds: int,
        in_place: bool,
        workers: Workers | None = None,
    ) -> None:
        self.setup, self.arms, self.steps, self.seeds, self.in_place = setup, arms, steps, seeds, in_place
        self.workers = workers
        self.batches = arms[0].score.batches
        self.planned_steps = len(arms) * seeds * steps
        self.total_steps, self.stopped = 0, False
        self.started = self.last_update = time.perf_counter()

    def run(self, screen: Screen, make_view: Callable[[str], View]) -> None:
        """Run everything; an interrupt acts as Stop in a notebook, else it is raised."""
        try:
            if self.workers is None:
                self._run_here(screen, make_view)
            else:
                self._run_in_workers(self.workers, screen, make_view)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise
        self._drop_incomplete_seeds()

    def changed_copy(self, changes: Sequence[SetupChange], seed: int = 0) -> AbstractContextManager[TreatedSetup]:
        """Return a block with a copy of the setup after some changes."""
        return changed_copy(self.setup, changes, self.batches, self.arms[0].score.loss_kind, seed, self.in_place)

    def _run_here(self, screen: Screen, make_view: Callable[[str], View]) -> None:
        """Run one arm after the other in this process."""
        for seed in range(self.seeds):
            for arm in self.arms:
                if self.stopped:
                    return

                def should_stop(_: MatchedRun, status: str = f"{arm.name}, seed {seed + 1} of {self.seeds}") -> bool:
                    self.total_steps += 1
                    self._update(screen, make_view, status)
                    self.stopped = self.stopped or screen.stopped
                    return self.stopped

                run = _train_arm(self.setup, arm, self.steps, self.in_place, seed, should_stop)
                if run.ended != "stopped":
                    arm.runs.append(run)

    def _run_in_workers(self, workers: Workers, screen: Screen, make_view: Callable[[str], View]) -> None:
        """Run the arms in workers, the first seeds first."""
        items = [(number, seed) for seed in range(self.seeds) for number in range(len(self.arms))]
        finished: dict[int, MatchedRun] = {}
        self._prepare_scores()

        def share_out(indices: Iterable[int]) -> None:
            chosen = list(indices)
            for number, arm in enumerate(self.arms):
                arm.runs[:] = [finished[index] for index in chosen if items[index][0] == number]

        def keep(index: int, run: MatchedRun) -> None:
            finished[index] = run
            share_out(takewhile(finished.__contains__, range(len(items))))  # so that a view compares the same seeds
            self.total_steps += len(run.losses)
            self._update(screen, make_view, f"{len(finished)} of {len(items)} runs")

        def should_stop() -> bool:
            self.stopped = self.stopped or screen.stopped
            return self.stopped

        try:
            with open_pool(partial(_train_numbered_arm, self.setup, self.arms, self.steps), workers) as pool:
                pool.run(items, keep, should_stop)
        finally:
            share_out(sorted(finished))

    def _prepare_scores(self) -> None:
        """Choose the samples of the score of each arm by a step with the first seed, as it is done without workers."""
        for arm in self.arms:
            if arm.changes:
                _train_arm(self.setup, arm, 1, False, 0, lambda run: True)

    def _drop_incomplete_seeds(self) -> None:
        complete = set.intersection(*({run.seed for run in arm.runs} for arm in self.arms))
        for arm in self.arms:
            arm.runs[:] = [run for run in arm.runs if run.seed in complete]

    def _update(self, screen: Screen, make_view: Callable[[str], View], status: str) -> None:
        now = time.perf_counter()
        if now - self.last_update < _SECONDS_BETWEEN_UPDATES:
            return
        self.last_update = now
        remaining = (now - self.started) / self.total_steps * (self.planned_steps - self.total_steps)
        screen.update(make_view(f"{status} · about {remaining:.0f} s of {self.planned_steps:,} steps left"))


def _train_arm(
    setup: Setup, arm: Arm, steps: int, in_place: bool, seed: int, should_stop: Callable[[MatchedRun], bool]
) -> MatchedRun:
    """Train a copy of an arm with one seed."""
    score = arm.score
    if arm.program is not None:
        with UserCodeErrors(lambda: f"in a run {arm.name}"):
            return train_program(arm.program, arm.edits, score, seed, steps, should_stop)
    with (
        changed_copy(setup, arm.changes, score.batches, score.loss_kind, seed, in_place) as treated,
        UserCodeErrors(lambda: f"in a run {arm.name}"),
    ):
        return train_copy(treated, score, seed, steps, should_stop)


def _train_numbered_arm(setup: Setup, arms: Sequence[Arm], steps: int, item: tuple[int, int]) -> MatchedRun:
    """Train one arm with one seed in a worker."""
    number, seed = item
    return _train_arm(setup, arms[number], steps, False, seed, lambda run: False)


def score_differences(before: Sequence[MatchedRun], after: Sequence[MatchedRun]) -> Floats:
    """Return the difference of the scores of two arms for each seed."""
    return np.array([second.score - first.score for first, second in zip(before, after, strict=True)])
