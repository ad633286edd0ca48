"""The range test: sweeps over seeds, confirmation runs, and a recommendation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from statistics import fmean
from typing import Any

from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.tools.lr_range import sweep
from nbdebug.tools.lr_range.apply import Setter
from nbdebug.tools.lr_range.bracket import next_rate
from nbdebug.tools.lr_range.confirmation import apply_confirmation, confirm
from nbdebug.tools.lr_range.confirmation_run import ConfirmationRun
from nbdebug.tools.lr_range.data import Sweep
from nbdebug.tools.lr_range.judgement import judgement_text
from nbdebug.tools.lr_range.recommendation import Recommendation, recommend
from nbdebug.tools.lr_range.result import LrRange, ScheduleRate, running_view, sweep_row, training_row
from nbdebug.tools.lr_range.schedules import SCHEDULES, Schedule, leading_schedule, schedule_rates
from nbdebug.tools.lr_range.suggestions import MIN_POINTS, suggestions
from nbdebug.tools.lr_range.sweep import StepCallback, SweepPlan, SweepRun, choose_optimizers, compare_to_control
from nbdebug.training.divergence import smooth_curve
from nbdebug.training.hyperparameters import make_hyperparameter
from nbdebug.training.model_copy import ensure_train_mode
from nbdebug.training.trainer import BatchStream, Trainer
from nbdebug.views.live import LiveScreen, Screen, show_view


class RangeTest:
    """Sweeps one setup, and trains at the recommended rates; every pass starts from the same state and restores it."""

    def __init__(
        self,
        setup: Setup,
        plan: SweepPlan,
        optimizer_choice: tuple[tuple[Optimizer, ...], bool, str],
        log: Callable[[str], None] | None,
    ) -> None:
        self.setup, self.plan = setup, plan
        self.optimizers, self.owned, self.optimizer_note = optimizer_choice
        self.hyperparameter = make_hyperparameter(
            self.optimizers, plan.quantity, plan.groups, setup.scheduler is not None
        )
        self.setter = Setter(self.hyperparameter, self.owned, setup.scheduler, log)
        self.schedule = leading_schedule(setup.schedulers) if plan.quantity == "lr" and self.owned else "constant"
        self.setup_notes = tuple(sweep.setup_notes(setup, self.optimizers, self.hyperparameter))
        self.sweeps: list[Sweep] = []
        self.trainings: list[ConfirmationRun] = []
        self.streams: list[BatchStream] = []
        self.control_levels: list[float] = []
        self.has_no_gradient = False
        self.steps = 0
        self.started = time.perf_counter()

    def run(self, screen: Screen) -> None:
        """Run one sweep per seed, and the confirmation runs, unless the user stops."""
        for seed in range(self.plan.seeds):
            if seed and isinstance(screen, LiveScreen):
                screen.update(running_view(self.result(), self.plan))
            self.sweep_seed(seed, screen)
            if self.sweeps[-1].ended in ("stopped", "interrupted"):
                return
        for schedule in self.confirmed_schedules if self.plan.confirm else ():
            self.confirm_schedule(schedule, screen)

    @property
    def confirmed_schedules(self) -> tuple[Schedule, ...]:
        """The schedules to train with: the user's own, or each one without a scheduler."""
        return (self.schedule,) if self.setup.schedulers and self.owned else SCHEDULES

    def confirm_schedule(self, schedule: Schedule, screen: Screen) -> None:
        """Train at the rates that are needed for a bracket, unless the user stops."""
        candidate = self.recommend(schedule).candidate
        while candidate and candidate.value and (rate := next_rate(candidate.value, self.runs_of(schedule))):
            if self.trainings and not self.trainings[-1].is_complete:
                return
            if isinstance(screen, LiveScreen):
                screen.update(running_view(self.result(), self.plan, rate))
            self.confirm_rate(rate, screen, schedule)

    def runs_of(self, schedule: Schedule) -> list[ConfirmationRun]:
        """Return the confirmation runs of one schedule."""
        return [run for run in self.trainings if run.schedule == schedule]

    def sweep_seed(self, seed: int, screen: Screen) -> None:
        """Run one sweep, against a control run unless the learning rate is swept."""

        def on_step(value: float, loss: float, smooth: float) -> bool:
            screen.append(sweep_row(seed, value, loss, smooth))
            return screen.stopped

        values, is_live = self.plan.values, isinstance(screen, LiveScreen)
        control: tuple[float, ...] = ()
        if self.plan.quantity != "lr":
            control_run = self.run_pass(
                seed, (self.hyperparameter.initial,) * len(values), lambda *_: screen.stopped, is_live
            )
            control = tuple(control_run.guard.losses)
            if control_run.ended not in ("finished", "diverged") or len(control) < MIN_POINTS:
                self.sweeps.append(Sweep(seed, (), (), (), control_run.ended))
                return
            self.control_levels.append(fmean(map(abs, control)))
        sweep_run = self.run_pass(seed, values[: len(control) or None], on_step, is_live, control)
        self.sweeps.append(sweep_run.to_sweep(seed))

    def confirm_rate(self, rate: float, screen: Screen, schedule: Schedule = "constant") -> None:
        """Train at one rate, or one-cycle with this peak, on the batches of the first sweep and those that follow."""
        steps = count()

        def on_step(_: float, loss: float, smooth: float) -> bool:
            screen.append(training_row(len(self.trainings), next(steps), loss, smooth))
            return screen.stopped

        rates = schedule_rates(schedule, rate, self.plan.confirm)
        training_run = self.run_pass(0, rates, on_step, isinstance(screen, LiveScreen))
        losses = tuple(training_run.guard.losses)
        self.trainings.append(ConfirmationRun(rate, losses, smooth_curve(losses), training_run.ended, schedule))

    def run_pass(
        self, seed: int, values: Sequence[float], on_step: StepCallback, is_live: bool, control: Sequence[float] = ()
    ) -> SweepRun:
        """Run one pass over some values, and restore everything afterwards."""
        setup = self.setup
        with Preserve(*setup.mutable_objects, *self.optimizers, loaders=(setup.train_loader, setup.val_loader)):
            ensure_train_mode(setup)
            held_out = self.held_out()
            seed_all(seed)
            with closing(BatchStream(setup, seed)) as stream:
                trainer = Trainer(setup, self.optimizers, stream, self.plan.accumulate, self.plan.max_norm)
                sweep_run = SweepRun(setup, trainer, self.hyperparameter, values, on_step, held_out, control)
                self.run_sweep(sweep_run, is_live)
            self.has_no_gradient = trainer.has_no_gradient
            self.streams.append(stream)
            self.steps += sweep_run.steps
        return sweep_run

    def run_sweep(self, sweep_run: SweepRun, is_live: bool) -> None:
        """Run a sweep; under a live view an interrupt acts as the Stop button."""
        try:
            sweep_run.run()
        except KeyboardInterrupt:
            sweep_run.ended = "interrupted"
            if not is_live:
                raise

    def held_out(self) -> Batch | None:
        """Return the validation batch, the same for every step of every sweep."""
        if not self.plan.val:
            return None
        if self.setup.val_loader is None:
            raise SetupError("val is True and val_loader is None; expected a loader. Pass one, or leave val out.")
        return next(iter(self.setup.batches(1, "val")))

    def recommend(self, schedule: Schedule = "constant") -> Recommendation:
        """Return the recommendation of the sweeps for a schedule."""
        plan = self.plan
        recommendation = recommend(
            plan.quantity, self.sweeps, plan.steps, self.has_no_gradient, self.hyperparameter.momentum, schedule
        )
        return compare_to_control(
            recommendation, plan.quantity, self.sweeps, self.hyperparameter.initial, fmean(self.control_levels or [0.0])
        )

    def rate_for(self, schedule: Schedule) -> tuple[Recommendation, ScheduleRate]:
        """Return the recommendation for a schedule, adjusted to its confirmation runs."""
        recommendation, runs = self.recommend(schedule), self.runs_of(schedule)
        candidate = recommendation.candidate
        confirmation = confirm(candidate.value, runs) if runs and candidate and candidate.value else None
        if confirmation is not None:
            recommendation = apply_confirmation(recommendation, confirmation, schedule)
        return recommendation, ScheduleRate(
            schedule, recommendation.verdict, recommendation.recommended, confirmation, recommendation.headline
        )

    def result(self) -> LrRange:
        """Return the result so far, as plain data."""
        plan = self.plan
        recommendation, leading_rate = self.rate_for(self.schedule)
        rates = [leading_rate]
        if plan.quantity == "lr":
            rates += [self.rate_for(schedule)[1] for schedule in SCHEDULES if schedule != self.schedule]
        result = LrRange(
            quantity=plan.quantity,
            mode=plan.mode,
            sweeps=tuple(self.sweeps),
            suggestions=suggestions(plan.quantity, self.sweeps),
            recommended=recommendation.recommended,
            verdict=recommendation.verdict,
            headline=recommendation.headline,
            reasons=recommendation.reasons,
            notes=tuple(self.collect_notes()),
            current=self.hyperparameter.initial if self.owned else None,
            seconds=time.perf_counter() - self.started,
            steps=self.steps,
            proof=leading_rate.proof,
            rates=tuple(rates),
            setter=self.setter,
        )
        return replace(result, judgement=judgement_text(result))

    def collect_notes(self) -> Iterator[str]:
        """Yield what else affects the curves."""
        if self.optimizer_note:
            yield self.optimizer_note
        yield from self.setup_notes
        if self.plan.quantity != "lr":
            yield "the loss is relative to that of the same batches at your own value, since it falls with time anyway"
        if self.plan.accumulate > 1:
            yield f"each step trains on {self.plan.accumulate} batches"
        if self.plan.val:
            yield "the loss is that of one validation batch, in eval mode"
        longest_training = max((len(run.losses) for run in self.trainings), default=0)
        yield from sweep.sweep_notes(self.sweeps, max(self.plan.steps, longest_training), self.streams)


def lr_range(
    setup: Setup, plan: SweepPlan | None = None, optimizer: Any = None, log: Callable[[str], None] | None = None
) -> LrRange:
    """Sweep a hyperparameter from the same weights over several seeds, and recommend a value.

    By default the learning rate is swept from 1e-7 to 10. The user's own objects are trained, and restored after each
    sweep; ``log`` is called with each change that ``apply()`` of the result makes later. An interrupt in a notebook
    acts as the Stop button and returns what there is; elsewhere it is raised. Raises SetupError if the setup cannot be
    run. The constant rate and the peak of one-cycle are recommended apart, as ``rates`` of the result; that of the
    user's scheduler comes first. With ``confirm`` in the plan, the recommended rate and rates on both sides are trained
    at afterwards: ``proof`` of the result. Smith 2017, arXiv:1506.01186. Momentum and weight decay (Smith 2018,
    arXiv:1803.09820, sections 4.3 and 4.4) are compared to a control run over the same batches at the user's own value,
    since the loss falls with time anyway.
    """
    plan = plan or SweepPlan()
    test = RangeTest(setup, plan, choose_optimizers(setup, optimizer), log)
    with show_view(running_view(test.result(), plan)) as screen:
        test.run(screen)
        result = test.result()
        screen.finish(result)
    return result
