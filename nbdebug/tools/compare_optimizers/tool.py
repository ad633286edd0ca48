"""Entry point of the optimizer comparison: range tests first, then every candidate with each seed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup, loaders
from nbdebug.tools.compare_optimizers.candidates import OptimizerCandidate, build_candidates, candidate_with_rate
from nbdebug.tools.compare_optimizers.ranking import InitialLosses, comparison_verdict, final_step_count, rank_results
from nbdebug.tools.compare_optimizers.result import CandidateResult, OptimizerComparison, build_view
from nbdebug.tools.compare_optimizers.run import CandidateTrainer, initial_losses
from nbdebug.tools.compare_optimizers.text import candidate_code, headline, notes, reasons
from nbdebug.tools.lr_range.sweep import SweepPlan
from nbdebug.training.model_copy import ensure_train_mode
from nbdebug.training.trainer import sample_count
from nbdebug.validation import check_whole_number
from nbdebug.views.live import LiveScreen, Screen, show_view

_VALIDATION_BATCHES = 4  # of the validation loader
_SECONDS_BETWEEN_UPDATES = 0.5  # seconds between updates of the view
_MIN_STEPS, _MAX_STEPS, _MAX_SEEDS = 10, 10_000, 20
_DEFAULT_STEPS, _DEFAULT_SEEDS = 200, 3


class ComparisonRunner:
    """Runs candidates on one setup, each from the same state, which is restored after each run."""

    def __init__(
        self,
        setup: Setup,
        candidates: list[OptimizerCandidate],
        steps: int,
        seeds: int,
        accumulate: int,
        max_norm: float | None,
    ) -> None:
        self.setup, self.steps, self.seeds = setup, steps, seeds
        self.accumulate, self.max_norm = accumulate, max_norm
        self.candidates = candidates
        self.trainers: list[list[CandidateTrainer]] = [[] for _ in candidates]
        self.codes: list[str] = [""] * len(candidates)
        self.initial_losses = InitialLosses()
        self.validation_batches: list[Batch] = []
        self.stopped = False
        self.status = ""
        self.started = self.last_update = time.perf_counter()

    def run(self, screen: Screen) -> None:
        """Run the range tests, then the candidates; an interrupt acts as Stop in a notebook, else it is raised."""
        try:
            self.validation_batches = self.read_validation_batches()
            for i, candidate in enumerate(self.candidates):
                if candidate.rate is None and self.should_continue(screen, f"range test of {candidate.name}", True):
                    self.share_rate(
                        i, candidate_with_rate(self.setup, candidate, self.accumulate, self.max_norm, screen)
                    )
            self.codes = [candidate_code(candidate) for candidate in self.candidates]
            for seed in range(self.seeds):
                if self.should_continue(screen, f"seed {seed}"):
                    self.run_seed(seed, screen)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise

    def share_rate(self, index: int, source: OptimizerCandidate) -> None:
        """Apply the rate of one candidate to all candidates of the same name, which differ in their schedule."""
        name = self.candidates[index].name
        for i, candidate in enumerate(self.candidates):
            if candidate.name == name:
                self.candidates[i] = replace(candidate, rate=source.rate, origin=source.origin)

    def run_seed(self, seed: int, screen: Screen) -> None:
        """Run every candidate with one seed."""
        with self.preserved_state():
            ensure_train_mode(self.setup)
            train, val = initial_losses(self.setup, seed, final_step_count(self.steps), self.validation_batches)
            self.initial_losses = InitialLosses(
                (*self.initial_losses.train, tuple(train)), (*self.initial_losses.val, tuple(val))
            )
        for i, candidate in enumerate(self.candidates):
            if self.should_continue(screen, f"{candidate.full_name}, seed {seed}"):
                self.run_candidate(i, candidate, seed, screen)

    def run_candidate(self, index: int, candidate: OptimizerCandidate, seed: int, screen: Screen) -> None:
        """Run one candidate and restore the state."""

        def should_stop() -> bool:
            return not self.should_continue(
                screen, f"{candidate.full_name}, seed {seed}: step {len(trainer.losses)} of {self.steps}"
            )

        trainer = CandidateTrainer(
            self.setup,
            candidate,
            seed,
            self.steps,
            self.validation_batches,
            should_stop,
            self.accumulate,
            self.max_norm,
        )
        self.trainers[index].append(trainer)
        with self.preserved_state():
            ensure_train_mode(self.setup)
            trainer.run()

    def preserved_state(self) -> Preserve:
        """Return a context manager that restores the state."""
        return Preserve(*self.setup.mutable_objects, loaders=(self.setup.train_loader, self.setup.val_loader))

    def should_continue(self, screen: Screen, status: str, force: bool = False) -> bool:
        """Update the view if it is due; return False if the user pressed Stop."""
        self.status = status
        if isinstance(screen, LiveScreen) and (
            force or time.perf_counter() - self.last_update > _SECONDS_BETWEEN_UPDATES
        ):
            screen.update(build_view(self.result(), status))
            self.last_update = time.perf_counter()
        self.stopped = self.stopped or screen.stopped
        return not self.stopped

    def read_validation_batches(self) -> list[Batch]:
        """Read the batches of the validation sample, the same for every evaluation."""
        if self.setup.val_loader is None:
            return []
        with self.preserved_state():
            if self.setup.step_fn is None:
                return list(self.setup.batches(_VALIDATION_BATCHES, "val"))
            return [
                Batch((), raw=raw)
                for raw, _ in loaders.peek_batches(self.setup.val_loader, _VALIDATION_BATCHES, "val_loader")
            ]

    @property
    def judged_by(self) -> Literal["train", "val"]:
        """The loss that determines the ranking."""
        return "val" if self.validation_batches else "train"

    def result(self) -> OptimizerComparison:
        """Return the current result as plain data."""
        entries = rank_results(self.candidate_results(), self.initial_losses, self.steps, self.judged_by)
        verdict_text = comparison_verdict(entries)
        start = self.initial_losses.val if self.validation_batches else self.initial_losses.train
        sizes = sum(sample_count(item.raw) for item in self.validation_batches)
        return OptimizerComparison(
            entries=tuple(entries),
            verdict=verdict_text,
            headline=headline(entries, verdict_text, self.judged_by, self.steps),
            reasons=tuple(reasons(entries, verdict_text, self.judged_by)),
            notes=tuple(notes(self.setup, entries, self.steps, self.seeds, sizes)),
            judged_by=self.judged_by,
            start=sum(sum(item) / len(item) for item in start) / len(start) if start else None,
            steps=self.steps,
            seeds=self.seeds,
            stopped=self.stopped,
            seconds=time.perf_counter() - self.started,
        )

    def candidate_results(self) -> list[CandidateResult]:
        """Return the candidates with their runs, not yet ranked."""
        return [
            CandidateResult(
                candidate.full_name,
                candidate.rate,
                candidate.origin,
                text,
                tuple(trainer.result() for trainer in trainers),
            )
            for candidate, text, trainers in zip(self.candidates, self.codes, self.trainers, strict=True)
        ]


def compare_optimizers(
    setup: Setup,
    optimizers: Any = None,
    schedules: Any = None,
    *,
    steps: int = _DEFAULT_STEPS,
    seeds: int = _DEFAULT_SEEDS,
    rates: Mapping[str, float] | None = None,
    accumulate: int = 1,
    max_norm: float | None = None,
) -> OptimizerComparison:
    """Compare optimizers and schedules: which converge, which are stable, and which are significantly better.

    Each candidate is trained for ``steps`` steps from the user's weights with each seed, on the same batches, at its
    own learning rate. The user's own objects are trained and restored after each run. In a notebook, an interrupt acts
    as Stop and returns the partial result; elsewhere it is raised. Raises SetupError for candidates that are invalid or
    cannot run.
    """
    check_whole_number("steps", steps, _MIN_STEPS, _MAX_STEPS)
    check_whole_number("seeds", seeds, 1, _MAX_SEEDS)
    SweepPlan(accumulate=accumulate, max_norm=max_norm)
    runner = ComparisonRunner(
        setup, build_candidates(setup, optimizers, schedules, rates), steps, seeds, accumulate, max_norm
    )
    with show_view(build_view(runner.result(), "starting")) as screen:
        runner.run(screen)
        result = runner.result()
        screen.finish(result)
    return result
