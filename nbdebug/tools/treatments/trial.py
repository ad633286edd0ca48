"""Trains one treated copy with one seed, and records its score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, isfinite

import numpy as np
import torch

from nbdebug.exceptions import SetupError
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.treatments.catalog import Treatment
from nbdebug.tools.treatments.score import ScoreMeter
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.model_copy import TrainableSetup, trainable_setup
from nbdebug.training.trainer import BatchStream, Trainer

LONGER = 4  # the setup without treatment gets so many times the steps
_SCORES_PER_RUN = 8


@dataclass
class TrialRun:
    """The scores of one run after some steps; ``steps`` counts steps of the user's batch size."""

    seed: int
    steps: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ended: str = "finished"

    @property
    def score(self) -> float:
        """The mean of the last two scores, which vary less than one of them; -inf for a run that diverged."""
        if self.ended == "diverged" or not self.scores:
            return -inf
        return float(np.mean(self.scores[-2:]))


def is_applicable(setup: Setup, treatment: Treatment, meter: ScoreMeter, batches: list[Batch]) -> bool:
    """Check whether a treatment changes a copy of the setup. Must run inside a Preserve."""
    with trainable_setup(setup, in_place=False) as trainable, torch.enable_grad():
        return _apply(treatment, _fresh_copy(setup, trainable, meter, batches), meter)


def run_trial(
    setup: Setup,
    treatment: Treatment | None,
    meter: ScoreMeter,
    batches: list[Batch],
    seed: int,
    steps: int,
    should_stop: Callable[[], bool],
) -> TrialRun | None:
    """Train a copy for ``steps`` steps of the user's batch size; None if the treated copy raises.

    Must run inside a Preserve. Raises SetupError if the copy without treatment raises.
    """
    with trainable_setup(setup, in_place=False) as trainable, torch.enable_grad():
        seed_all(seed)
        treated = _fresh_copy(setup, trainable, meter, batches)
        if treatment is None:
            with UserCodeErrors(lambda: "in a run without treatment"):
                return _train(treated, meter, seed, steps, should_stop)
        try:
            return _train(treated, meter, seed, steps, should_stop) if _apply(treatment, treated, meter) else None
        except Exception:  # the changed setup may not run; the user's own has
            return None


def _fresh_copy(setup: Setup, trainable: TrainableSetup, meter: ScoreMeter, batches: list[Batch]) -> TreatedSetup:
    """Return a copy with fresh optimizers, without treatment."""
    if not trainable.trainable:
        raise SetupError("model has no parameter that requires a gradient; expected one. Unfreeze a layer.")
    optimizers = trainable.rebuild_optimizers(setup.optimizers, setup.scheduler is not None) or [trainable.adam()]
    return TreatedSetup(trainable, optimizers, batches, meter.loss_kind)


def _apply(treatment: Treatment, treated: TreatedSetup, meter: ScoreMeter) -> bool:
    """Apply a treatment; return whether it changes the copy and the scores can still be compared."""
    loss_fn = treated.setup.loss_fn
    try:
        is_changed = treatment.apply(treated)
    except Exception:  # it does not fit this model
        return False
    return is_changed and not (meter.compares_losses and treated.setup.loss_fn is not loss_fn)


def _train(
    treated: TreatedSetup, meter: ScoreMeter, seed: int, steps: int, should_stop: Callable[[], bool]
) -> TrialRun:
    run = TrialRun(seed)
    stream = BatchStream(treated.setup, seed)
    trainer = Trainer(treated.setup, treated.optimizers, stream, 1, treated.max_norm)
    count = round(steps / treated.samples_per_step)
    due = {round(count * number / _SCORES_PER_RUN) for number in range(1, _SCORES_PER_RUN + 1)}
    try:
        for step in range(1, count + 1):
            if not isfinite(trainer.step()):
                run.ended = "diverged"
                break
            if step in due:
                run.steps.append(round(step * treated.samples_per_step))
                run.scores.append(meter.score(treated))
            if should_stop():
                run.ended = "stopped"
                break
    finally:
        stream.close()
    return run
