"""The overfit test: tiny batch, loss floor, attempts, verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from math import ceil

from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.overfit.attempt import AttemptRunner, memorization_goal
from nbdebug.tools.overfit.loss_floor import find_loss_floor
from nbdebug.tools.overfit.readout import SCORE_LABELS, make_reader
from nbdebug.tools.overfit.result import Attempt, Overfit, RecordedStep, batch_examples, overfit_view, step_row
from nbdebug.tools.overfit.tiny_batch import TinyBatchPass, contradictory_pairs, first_tiny_pass, input_groups
from nbdebug.tools.overfit.verdict import (
    OverfitVerdict,
    VerdictInputs,
    derive_verdict,
    disable_dropout,
    inconclusive_reasons,
    ruled_out_causes,
    verdict_reasons,
)
from nbdebug.training.model_copy import TrainableSetup, copy_obstacle, trainable_setup
from nbdebug.views.live import LiveScreen, Screen, show_view

_MAX_RECORDED_STEPS = 50
_IN_PLACE_NOTE = "trained in place and restored"
_MIN_EXAMPLES, _DEFAULT_EXAMPLES, _MAX_EXAMPLES = 2, 16, 64
_MIN_STEPS, _MAX_STEPS = 2, 300


@dataclass(frozen=True)
class _PlannedAttempt:
    """A planned attempt: its name, whether it uses the user's optimizers, and its maximal number of steps."""

    name: str
    uses_own_optimizers: bool
    steps: int

    def optimizers(self, trainable_setup: TrainableSetup, setup: Setup) -> list[Optimizer]:
        """Create fresh optimizers for the trained parameters."""
        return (
            _rebuilt_optimizers(trainable_setup, setup)
            if self.uses_own_optimizers
            else [trainable_setup.adam()]
            if trainable_setup.trainable
            else []
        )


def _plan_attempts(setup: Setup, steps: int) -> tuple[list[_PlannedAttempt], str]:
    """Return the attempts, the user's settings first with half of the steps, and why these cannot be used, if so."""
    trainable_setup = TrainableSetup(setup, {})
    adam_name = (
        f"Adam, lr {trainable_setup.adam().param_groups[0]['lr']:g}" if trainable_setup.trainable else "no optimizer"
    )
    if not setup.optimizers:
        return [_PlannedAttempt(adam_name, False, steps)], "no optimizer was given: only Adam was tried"
    try:
        name = " and ".join(map(_optimizer_name, _rebuilt_optimizers(trainable_setup, setup)))
    except Exception as error:
        unavailable_reason = f"{type(setup.optimizers[0]).__name__} could not be rebuilt ({error}): only Adam was tried"
        return [_PlannedAttempt(adam_name, False, steps)], unavailable_reason
    half_steps = steps // 2
    return [
        _PlannedAttempt(f"your {name}", True, half_steps),
        _PlannedAttempt(adam_name, False, steps - half_steps),
    ], ""


def _rebuilt_optimizers(trainable_setup: TrainableSetup, setup: Setup) -> list[Optimizer]:
    """Rebuild the user's optimizers for the trained parameters."""
    return trainable_setup.rebuild_optimizers(setup.optimizers, has_scheduler=setup.scheduler is not None)


def _optimizer_name(optimizer: Optimizer) -> str:
    """Return the class name of an optimizer with its learning rates."""
    learning_rates = dict.fromkeys(f"{float(group['lr']):.3g}" for group in optimizer.param_groups if "lr" in group)
    return type(optimizer).__name__ + (f", lr {' and '.join(learning_rates)}" if learning_rates else "")


class OverfitTrial:
    """A test of one tiny batch; must be used within a Preserve. With ``without_dropout``, dropout layers are off."""

    without_dropout = False

    def __init__(self, setup: Setup, tiny_pass: TinyBatchPass, requested_examples: int, steps: int, seed: int) -> None:
        self.setup, self.tiny_pass, self.requested_examples, self.seed = setup, tiny_pass, requested_examples, seed
        self.recording_interval = ceil(steps / _MAX_RECORDED_STEPS)
        self.input_groups = input_groups(tiny_pass.batch, tiny_pass.size)
        self.floor = find_loss_floor(setup, tiny_pass, self.input_groups)
        self.reader = make_reader(tiny_pass.task, tiny_pass.kind, tiny_pass.output, tiny_pass.batch, tiny_pass.size)
        self.goal = memorization_goal(self.floor, tiny_pass.loss, self.attainable_accuracy())
        with Preserve(*setup.mutable_objects), UserCodeErrors(lambda: "in the second pass of the overfit test"):
            self.in_place = copy_obstacle(setup, tiny_pass.batch)
        self.plan, self.plan_note = _plan_attempts(setup, steps)
        self.examples = batch_examples(tiny_pass.batch, self.reader)
        self.attempts: list[Attempt] = []
        self.doubts: tuple[str, ...] = ()

    def attainable_accuracy(self) -> float | None:
        """Return the accuracy of the best output, if the loss is for classes and each example has one."""
        if self.tiny_pass.kind == "other" or not self.reader.has_single_class or self.floor.best_output is None:
            return None
        return self.reader.read(self.floor.best_output, self.tiny_pass.batch).accuracy

    def run(self, screen: Screen) -> None:
        """Run the attempts in turn, until one meets the goal or no other could."""
        for number, item in enumerate(self.plan):
            self.attempts.append(self.run_attempt(number, item, screen))
            last_attempt = self.attempts[-1]
            if last_attempt.modes_met or self.stopped or len(last_attempt.losses) < 2:
                break
        if not self.stopped and not any(item.modes_met for item in self.attempts):
            self.doubts = self.find_doubts()

    def find_doubts(self) -> tuple[str, ...]:
        """Return reasons why a loss above the goal is inconclusive; empty if the loss is not finite."""
        if self.attempts[-1].stop_reason == "not finite":
            return ()
        facts = self.facts()
        with UserCodeErrors(lambda: "after the steps of the overfit test"):
            return inconclusive_reasons(
                self.setup, self.tiny_pass, self.floor, self.attempts, facts.needed, facts.trainable
            )

    @property
    def stopped(self) -> bool:
        """True if the user ended the test."""
        return bool(self.attempts) and self.attempts[-1].stop_reason in ("stopped", "interrupted")

    def run_attempt(self, number: int, planned: _PlannedAttempt, screen: Screen) -> Attempt:
        """Run one attempt; exceptions of the user's code become a SetupError that names the step."""

        def on_step(step: int, loss: float, point: RecordedStep | None) -> bool:
            screen.append(step_row(number, step, loss, point))
            return screen.stopped

        with trainable_setup(self.setup, bool(self.in_place)) as trainable:
            seed_all(self.seed)
            if self.without_dropout:
                disable_dropout(trainable.setup.eager_model)
            optimizers = planned.optimizers(trainable, self.setup)
            runner = AttemptRunner(
                trainable,
                optimizers,
                self.tiny_pass.batch,
                self.goal,
                self.reader,
                planned.steps,
                self.recording_interval,
                on_step,
            )
            runner.needs_dense_gradients = not planned.uses_own_optimizers
            try:
                with UserCodeErrors(lambda: f"in step {len(runner.losses)} of the overfit test, with {planned.name}"):
                    runner.train()
            except KeyboardInterrupt:
                runner.stop_reason = "interrupted"
                if not isinstance(screen, LiveScreen):
                    raise
            return runner.result(planned.name)

    def facts(self) -> VerdictInputs:
        """Return the inputs of the verdict."""
        trainable = TrainableSetup(self.setup, {}).trainable
        held_ids = set(map(id, optimized_parameters(*self.setup.optimizers)))
        return VerdictInputs(
            floor=self.floor,
            goal=self.goal,
            attempts=tuple(self.attempts),
            uses_own_optimizers=self.plan[0].uses_own_optimizers,
            trainable=sum(p.numel() for p in trainable),
            optimized_parameters=sum(p.numel() for p in trainable if id(p) in held_ids),
            needed=self.reader.count_target_values(self.tiny_pass.batch),
            size=self.tiny_pass.size,
            requested_examples=self.requested_examples,
            contradictions=contradictory_pairs(self.input_groups, self.tiny_pass.batch),
            doubts=self.doubts,
            notes=tuple(filter(None, (self.plan_note, self.in_place and f"{_IN_PLACE_NOTE}: {self.in_place}"))),
            stopped=self.stopped,
        )

    def result(self) -> Overfit:
        """Return the current result as plain data."""
        facts = self.facts()
        verdict = derive_verdict(facts) if self.attempts else OverfitVerdict("cannot tell", "", "")
        names = self.setup.class_names
        shown_attempts = (
            (Attempt(planned_attempt.name, (), ()) for planned_attempt in self.plan)
            if not self.attempts
            else self.attempts
        )
        return Overfit(
            verdict=verdict.outcome,
            headline=verdict.headline,
            cause=verdict.cause,
            reasons=verdict_reasons(facts, verdict) if self.attempts else (),
            ruled_out=ruled_out_causes(facts, verdict) if self.attempts else (),
            attempts=tuple(shown_attempts),
            examples=self.examples,
            floor=self.floor.value,
            chance=self.floor.constant_loss,
            goal=self.goal.loss,
            task=str(self.tiny_pass.task),
            quantity=SCORE_LABELS[self.reader.form],
            exact=self.reader.has_single_class,
            class_names=None if names is None else tuple(names),
            trainable=facts.trainable,
            needed=facts.needed,
            in_place=self.in_place,
            stopped=self.stopped,
            without_dropout=self.without_dropout,
        )


def overfit(setup: Setup, *, examples: int = _DEFAULT_EXAMPLES, steps: int = _MAX_STEPS, seed: int = 0) -> Overfit:
    """Test whether a tiny batch can be memorized, with the user's optimizers, then with Adam from the same weights.

    Trains a copy, or the model itself if it cannot be copied; restores everything afterwards. ``examples`` is in 2 to
    64, ``steps`` in 2 to 300 over both attempts. An interrupt in a notebook acts as Stop: the result so far is
    returned, marked ``stopped``. Elsewhere it is raised, since it is meant for the program, not the cell. Raises
    SetupError for a setup that cannot be run.
    """
    _check_in_range("examples", examples, _MIN_EXAMPLES, _MAX_EXAMPLES)
    _check_in_range("steps", steps, _MIN_STEPS, _MAX_STEPS)
    started = time.perf_counter()
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        trial = OverfitTrial(setup, first_tiny_pass(setup, examples), examples, steps, seed)
        with show_view(overfit_view(trial.result(), live=True)) as screen:
            trial.run(screen)
            result = replace(trial.result(), seconds=time.perf_counter() - started)
            screen.finish(result)
    return result


class _Deadline(Screen):
    """A screen that shows nothing and stops the test at a time of ``time.thread_time``."""

    def __init__(self, time_limit: float) -> None:
        self.time_limit = time_limit

    @property
    def stopped(self) -> bool:
        """True once the time is up."""
        return time.thread_time() >= self.time_limit


def overfit_within(setup: Setup, seconds: float) -> Overfit:
    """Run the test without a view, with Adam only, and without dropout.

    The user's settings are judged by the run that they made, and strong dropout prevents memorization on purpose.
    After ``seconds`` of processor time, which other programs do not lengthen, the test stops, and its verdict is
    "cannot tell". Raises SetupError as ``overfit`` does.
    """
    started, time_limit = time.perf_counter(), time.thread_time() + seconds
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        trial = OverfitTrial(setup, first_tiny_pass(setup, _DEFAULT_EXAMPLES), _DEFAULT_EXAMPLES, _MAX_STEPS, 0)
        trial.plan, trial.without_dropout = trial.plan[-1:], True
        trial.run(_Deadline(time_limit))
        return replace(trial.result(), seconds=time.perf_counter() - started)


def _check_in_range(name: str, value: int, minimum: int, maximum: int) -> None:
    """Raise SetupError for a number outside its limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        message = f"{name} is {value!r}; expected a whole number from {minimum} to {maximum}."
        raise SetupError(f"{message} Leave it out for the default.")
