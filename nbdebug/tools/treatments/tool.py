"""Try treatments on copies of a setup that learns poorly, and name the one that cures it."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf

from nbdebug.exceptions import SetupError
from nbdebug.measurements import Measurements
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.treatments.catalog import TREATMENTS, Treatment
from nbdebug.tools.treatments.judgement import (
    HIGH_SCORE,
    cures,
    headline,
    is_faster,
    notes,
    rank_treatments,
    required_score,
    treatment_verdict,
)
from nbdebug.tools.treatments.result import TreatmentResult, Treatments, TreatmentVerdict, build_view
from nbdebug.tools.treatments.score import ScoreMeter
from nbdebug.tools.treatments.trial import LONGER, TrialRun, is_applicable, run_trial
from nbdebug.training.model_copy import copy_obstacle
from nbdebug.validation import check_whole_number
from nbdebug.views.live import LiveScreen, Screen, show_view

_MIN_STEPS, _MAX_STEPS, _MAX_SEEDS = 20, 10_000, 10
_MAX_CONFIRMED, _EXPECTED_CONFIRMED = 4, 2  # treatments that are repeated with the other seeds
_SECONDS_BETWEEN_UPDATES = 0.5


class _TreatmentRunner:
    """Runs the setup without treatment, then each treatment, then the best ones with the other seeds."""

    def __init__(self, setup: Setup, steps: int, seeds: int, trained_steps: int) -> None:
        self.setup, self.steps, self.seeds, self.trained_steps = setup, steps, seeds, trained_steps
        self.meter = ScoreMeter(setup, Measurements(setup))
        self.trained_score = self.meter.score_model(setup) if trained_steps else None
        self.batches = self.meter.training_batches()
        self.candidates = self.applicable_treatments()
        self.planned_steps = (seeds * LONGER + len(self.candidates) + _EXPECTED_CONFIRMED * (seeds - 1)) * steps
        self.untreated: list[TrialRun] = []
        self.results: list[TreatmentResult] = []
        self.stopped = False
        self.total_steps = 0
        self.started = self.last_update = time.perf_counter()

    def run(self, screen: Screen) -> None:
        """Run everything; an interrupt acts as Stop in a notebook, else it is raised."""
        try:
            self.run_untreated(screen)
            if not self.stopped and min(run.score for run in self.untreated) < HIGH_SCORE:
                self.screen_treatments(screen)
                self.confirm_treatments(screen)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise

    def run_untreated(self, screen: Screen) -> None:
        """Run the setup as it is, for longer than the treatments."""
        for seed in range(self.seeds):
            if self.stopped:
                return
            status = f"without treatment, seed {seed}"
            run = self.run_once(None, seed, LONGER * self.steps, screen, status)
            assert run is not None
            self.untreated.append(run)

    def screen_treatments(self, screen: Screen) -> None:
        """Run each treatment with the first seed."""
        for number, treatment in enumerate(self.candidates):
            if self.stopped:
                return
            status = f"treatment {number + 1} of {len(self.candidates)}: {treatment.name}"
            run = self.run_once(treatment, 0, self.steps, screen, status)
            if run is not None:
                self.results.append(TreatmentResult(treatment, (run,)))

    def confirm_treatments(self, screen: Screen) -> None:
        """Repeat the best treatments that exceed the score without treatment with the other seeds."""
        required = required_score(self.untreated)
        promising = [item for item in self.results if item.score > required]
        ranked = rank_treatments(promising, self.untreated_score)[:_MAX_CONFIRMED]
        self.planned_steps = self.total_steps + len(ranked) * (self.seeds - 1) * self.steps
        for item in ranked:
            runs = [self.confirm_treatment(item, seed, screen) for seed in range(1, self.seeds)]
            confirmed = replace(item, runs=(*item.runs, *(run for run in runs if run is not None)))
            if cures(confirmed, self.untreated):
                confirmed = replace(confirmed, outcome="cures")
            self.results[self.results.index(item)] = confirmed

    def confirm_treatment(self, item: TreatmentResult, seed: int, screen: Screen) -> TrialRun | None:
        """Repeat a treatment with another seed; None if it was stopped or raised."""
        status = f"{item.name} again, seed {seed}"
        return None if self.stopped else self.run_once(item.treatment, seed, self.steps, screen, status)

    def run_once(
        self, treatment: Treatment | None, seed: int, steps: int, screen: Screen, status: str
    ) -> TrialRun | None:
        """Run one trial, and restore the state."""

        def should_stop() -> bool:
            self.total_steps += 1
            self.update(screen, status)
            self.stopped = self.stopped or screen.stopped
            return self.stopped

        with self.preserved():
            return run_trial(self.setup, treatment, self.meter, self.batches, seed, steps, should_stop)

    def applicable_treatments(self) -> list[Treatment]:
        """Return the treatments that change this setup."""
        with self.preserved():
            return [item for item in TREATMENTS if is_applicable(self.setup, item, self.meter, self.batches)]

    def preserved(self) -> Preserve:
        """Return a block that restores the user's objects."""
        return Preserve(*self.setup.mutable_objects, loaders=(self.setup.train_loader, self.setup.val_loader))

    @property
    def untreated_score(self) -> float:
        """The best score without treatment."""
        return max((run.score for run in self.untreated), default=-inf)

    @property
    def comparable_score(self) -> float | None:
        """The score after the user's own run, if that had at least as many steps as the runs without treatment."""
        return self.trained_score if self.trained_steps >= LONGER * self.steps else None

    def update(self, screen: Screen, status: str) -> None:
        """Update the view if it is due."""
        if isinstance(screen, LiveScreen) and time.perf_counter() - self.last_update > _SECONDS_BETWEEN_UPDATES:
            screen.update(build_view(self.result(), f"{status} · {self.cost_text()}"))
            self.last_update = time.perf_counter()

    def cost_text(self) -> str:
        """Return the estimated number of steps, and the time that is left."""
        elapsed = time.perf_counter() - self.started
        remaining = elapsed / max(self.total_steps, 1) * max(self.planned_steps - self.total_steps, 0)
        return f"about {remaining:.0f} s of {self.planned_steps:,} steps left"

    def result(self) -> Treatments:
        """Return the present result as plain data."""
        entries = [
            replace(item, outcome="is faster") if is_faster(item, self.untreated) else item for item in self.results
        ]
        cured = rank_treatments([item for item in entries if item.outcome == "cures"], self.untreated_score)
        others = sorted((item for item in entries if item.outcome != "cures"), key=lambda item: -item.score)
        faster = [item for item in others if item.outcome]
        verdict: TreatmentVerdict = "stopped"
        if self.untreated and (cured or not self.stopped):
            verdict = treatment_verdict(self.untreated, cured, faster, self.comparable_score)
        result = Treatments(
            verdict=verdict,
            headline="",
            entries=(*cured, *others),
            untreated=tuple(self.untreated),
            metric=self.meter.metric,
            split=self.meter.split,
            steps=self.steps,
            seeds=self.seeds,
            total_steps=self.total_steps,
            reference_score=self.meter.reference_score,
            trained_steps=self.trained_steps,
            trained_score=self.trained_score,
            seconds=time.perf_counter() - self.started,
        )
        return replace(result, headline=headline(result), notes=tuple(notes(result, self.setup)))


def treatments(setup: Setup, *, steps: int = 150, seeds: int = 3, trained_steps: int = 0) -> Treatments:
    """Try treatments on copies of a setup, and name what cures poor learning.

    The setup is trained without treatment for four times ``steps`` with each seed, by a plain loop. Each treatment is
    tried for ``steps``; those that reach more than the setup without treatment are repeated with the other seeds. In a
    notebook, an interrupt acts as Stop; elsewhere it is raised. ``trained_steps`` are the steps of a run of the user's
    own loop that has ended, whose score is then compared with that of the plain loop.

    Raises SetupError for a setup that cannot be run or copied.
    """
    check_whole_number("steps", steps, _MIN_STEPS, _MAX_STEPS)
    check_whole_number("seeds", seeds, 1, _MAX_SEEDS)
    preserved = Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader))
    with preserved, UserCodeErrors(lambda: "before the treatments"):
        if obstacle := copy_obstacle(setup, next(setup.batches(1))):
            raise SetupError(f"treatments need a copy of the model, but {obstacle}. Run compare_optimizers() instead.")
        runner = _TreatmentRunner(setup, steps, seeds, trained_steps)
    with show_view(build_view(runner.result(), "starting")) as screen:
        runner.run(screen)
        result = runner.result()
        screen.finish(result)
    return result
