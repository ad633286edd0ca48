"""Trains one copy of a setup with a seed, so that copies with and without a change see the same batches and noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np
import torch

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.treatments.trial import TrialRun
from nbdebug.tools.try_fix.change import SetupChange
from nbdebug.tools.try_fix.run_score import RunScore
from nbdebug.training.model_copy import TrainableSetup, trainable_setup
from nbdebug.training.trainer import BatchStream, Trainer

_SCORES_PER_RUN = 8
_SEED_STRIDE = 1_000_003  # a prime larger than the number of batches of a run


@dataclass
class MatchedRun(TrialRun):
    """The scores of one run, from step 0 on, the seconds of its training steps, and the training loss of each.

    A run that diverges has the score of a model that has learned nothing from there on.
    """

    seconds: float = 0.0
    losses: list[float] = field(default_factory=list, repr=False)

    @property
    def score(self) -> float:
        """The mean of the last two scores, which vary less than one of them."""
        return float(np.mean(self.scores[-2:]))

    def add_score(self, step: int, score: float) -> None:
        """Add the score after a step."""
        self.steps.append(step)
        self.scores.append(score)


class MatchedBatches(Iterator[Batch]):
    """The batches of a loader, with random numbers that depend on the seed and the number of the batch only.

    All generators are seeded before each batch is read, and again before the step on it.
    """

    def __init__(self, setup: Setup, seed: int) -> None:
        seed_all(seed)
        self.stream, self.seed, self.count = BatchStream(setup, seed), seed, 0

    def __next__(self) -> Batch:
        seed_all((self.seed * _SEED_STRIDE + self.count) % 2**31)
        batch = next(self.stream)
        self.count += 1
        seed_all((self.seed * _SEED_STRIDE + self.count) % 2**31)
        return batch


@contextmanager
def changed_copy(
    setup: Setup,
    changes: Sequence[SetupChange],
    batches: list[Batch],
    loss_kind: Any,
    seed: int = 0,
    in_place: bool = False,
) -> Iterator[TreatedSetup]:
    """Provide a copy of a setup after some changes; the loaders and random states are restored afterwards.

    ``seed`` is that of the random numbers of the changes, such as those of new weights. With ``in_place``, the setup
    itself is changed, and restored afterwards. Raises SetupError for a change
    that does not apply to this setup, or that raises.
    """
    loaders = (setup.train_loader, setup.val_loader)
    with Preserve(*setup.mutable_objects, loaders=loaders), trainable_setup(setup, in_place) as trainable:
        treated = _fresh_copy(setup, trainable, batches, loss_kind)
        for number, change in enumerate(changes):
            replacement = _apply(change, treated, seed)
            if isinstance(replacement, Setup):
                with changed_copy(replacement, changes[number + 1 :], batches, loss_kind, seed) as other:
                    yield other
                return
        yield treated


def _fresh_copy(setup: Setup, trainable: TrainableSetup, batches: list[Batch], loss_kind: Any) -> TreatedSetup:
    if not trainable.trainable:
        raise SetupError("model has no parameter that requires a gradient; expected one. Unfreeze a layer.")
    optimizers = trainable.rebuild_optimizers(setup.optimizers, setup.scheduler is not None) or [trainable.adam()]
    return TreatedSetup(trainable, optimizers, batches, loss_kind)


def _apply(change: SetupChange, treated: TreatedSetup, seed: int) -> bool | Setup:
    """Apply a change, and let the optimizers train what it has added."""
    seed_all(seed)
    known = {id(p): p for p in treated.trainable.trainable}  # holds them, so that no id is used twice
    with torch.enable_grad(), UserCodeErrors(lambda: f"in the change {change.name!r}"):
        outcome = change.apply(treated)
    if outcome is False:
        raise SetupError(
            f"the change {change.name!r} does not alter this setup; expected one that does. "
            "The setup has no such part, or has this value already."
        )
    if outcome is True:
        treated.train_new_parameters(known.keys())
    return outcome


def score_steps(count: int) -> list[int]:
    """Return the steps of a run of ``count`` steps after which it is scored."""
    return sorted({max(1, round(count * number / _SCORES_PER_RUN)) for number in range(1, _SCORES_PER_RUN + 1)})


def train_copy(
    treated: TreatedSetup, run_score: RunScore, seed: int, steps: int, should_stop: Callable[[MatchedRun], bool]
) -> MatchedRun:
    """Train a copy for ``steps`` steps of the user's batch size."""
    run = MatchedRun(seed)
    count = max(1, round(steps / treated.samples_per_step))
    due = score_steps(count)
    batches = MatchedBatches(treated.setup, seed)
    trainer = Trainer(treated.setup, treated.optimizers, batches, 1, treated.max_norm)
    schedulers = [treated.schedule(item, count) for item in treated.optimizers] if treated.schedule is not None else []
    run.add_score(0, run_score(treated))
    try:
        for step in range(1, count + 1):
            started = time.perf_counter()
            loss = trainer.step()
            run.losses.append(loss)
            for scheduler in schedulers:
                scheduler.step()
            run.seconds += time.perf_counter() - started
            if not isfinite(loss):
                run.ended = "diverged"
                lowest = run_score.lowest(run.scores)
                for later in due:
                    if later >= step:
                        run.add_score(round(later * treated.samples_per_step), lowest)
                break
            if step in due:
                run.add_score(round(step * treated.samples_per_step), run_score(treated))
            if should_stop(run):
                run.ended = "stopped"
                break
    finally:
        batches.stream.close()
    return run


def setup_of_copy(treated: TreatedSetup) -> Setup:
    """Return the setup of a copy with its optimizers, for a checkup."""
    return replace(treated.setup, optimizers=tuple(treated.optimizers), scheduler=None, other_schedulers=())
