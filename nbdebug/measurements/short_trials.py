"""Short trials: copies of a model are trained on the first batches, as they are and with one change."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import cycle

import torch
from torch.overrides import TorchFunctionMode

from nbdebug.exceptions import NotChecked
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.training.model_copy import copy_obstacle, initialize_weights, trainable_setup
from nbdebug.training.trainer import Trainer

_MAX_PRODUCTS = 2e7  # of parameters and samples of a batch, so that both trials are short on any machine
_MAX_SECONDS, _TIMED_STEPS = 2.0, 8  # of both trials unless a checkup is thorough, predicted from the first steps
_MAX_SECONDS_OF_SUSPICION = 4.0  # if a measured fact, which few models show, makes the trials worth their time
_MIN_GAIN = 0.05  # of the loss, in the better trial: shares of less are noise
_MAX_INITIAL_RISE = 1.5  # of the loss by the change: beyond it, the starts of the two trials cannot be compared


class Intervention(TorchFunctionMode):
    """Changes calls of a pass."""

    def start(self, size: int) -> None:
        """Prepare for a pass over ``size`` samples."""


@dataclass(frozen=True)
class TrialPair:
    """Losses of the first batches before and after a trial of some steps, and those of a trial with a change."""

    steps: int
    initial_loss: float
    loss: float
    changed_initial_loss: float
    changed_loss: float

    def is_hindered(self, progress: float, constant_loss: float = math.inf) -> bool:
        """Return whether the model gains less than a share of what it gains with the change.

        The gains are those over the smaller of both initial losses, since outputs of a large scale start with a larger
        one, and over the loss of a constant prediction, which any model learns soon.
        """
        start = min(self.initial_loss, self.changed_initial_loss, constant_loss)
        has_comparable_start = self.changed_initial_loss < _MAX_INITIAL_RISE * self.initial_loss
        gain = start - self.changed_loss
        is_clear = gain > _MIN_GAIN * abs(start)
        return has_comparable_start and is_clear and start - self.loss < progress * gain


def run_trials(
    setup: Setup,
    batches: Sequence[Batch],
    steps: int,
    budget: str,
    *,
    changed_batches: Sequence[Batch] | None = None,
    intervention: Intervention | None = None,
    changed_settings: Mapping[str, float] | None = None,
    held_out: bool = False,
    from_new_weights: bool = False,
    changed_from_new_weights: bool = False,
    is_suspected: bool = False,
) -> TrialPair:
    """Return the losses of two trials with the user's optimizer, the second with other batches, calls or settings.

    With ``held_out``, the losses are those of the last batch, and the trials train on the others. With
    ``from_new_weights``, both start from the same newly initialized weights instead of those of the model; with
    ``changed_from_new_weights``, the second one does. Raises NotChecked if copies cannot be trained, or not in the time
    that the ``budget`` of a checkup allows, which is more for what ``is_suspected``.
    """
    if len(setup.optimizers) != 1 or setup.step_fn is not None:
        raise NotChecked("a trial needs one optimizer and a loss of the output")
    parameters = sum(p.numel() for p in setup.eager_model.parameters())
    if parameters * max(batches[0].size, 1) > _MAX_PRODUCTS:
        raise NotChecked("the model and its batches are too large for two trials")
    if held_out and len(batches) < 2:
        raise NotChecked("a trial needs two batches")
    with Preserve(*setup.mutable_objects), torch.enable_grad():
        if obstacle := copy_obstacle(setup, batches[0]):
            raise NotChecked(obstacle)
        allowed_seconds = _MAX_SECONDS_OF_SUSPICION if is_suspected else _MAX_SECONDS
        seconds = math.inf if budget == "thorough" else allowed_seconds
        trial = _TrainedCopy(setup, steps, held_out, from_new_weights, seconds)
        changed = replace(trial, from_new_weights=from_new_weights or changed_from_new_weights)
        losses = [
            *trial.run(batches, None, {}),
            *changed.run(changed_batches or batches, intervention, changed_settings or {}),
        ]
    if not all(map(math.isfinite, losses)):
        raise NotChecked("the loss of a trial is not finite")
    return TrialPair(steps, *losses)


@dataclass(frozen=True)
class _TrainedCopy:
    """Training of a copy of the model for some steps, with the user's optimizer.

    Two such trainings must take no more than ``seconds`` of processor time.
    """

    setup: Setup
    steps: int
    held_out: bool
    from_new_weights: bool
    seconds: float

    def run(
        self, batches: Sequence[Batch], intervention: Intervention | None, settings: Mapping[str, float]
    ) -> tuple[float, float]:
        """Return the losses before and after training, with some settings in all groups of the optimizer."""
        trained, losses = batches[:-1] if self.held_out else batches, list[float]()
        seed_all(0)
        with trainable_setup(self.setup, in_place=False) as trial:
            if self.from_new_weights:
                initialize_weights(trial.setup.eager_model)
            optimizers = trial.rebuild_optimizers(self.setup.optimizers, has_scheduler=self.setup.scheduler is not None)
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group.update(settings)
            trainer = Trainer(trial.setup, optimizers, cycle(trained))
            if trainer.has_closures:
                raise NotChecked("a trial needs an optimizer that does not evaluate the loss itself")
            first_loss = _compute_loss(trial.setup, batches[-1]) if self.held_out else 0.0
            started = time.thread_time()
            for step in range(self.steps):
                if step <= _TIMED_STEPS:
                    self._check_duration(time.thread_time() - started)
                if intervention is not None:
                    intervention.start(trained[step % len(trained)].size)
                with intervention or nullcontext():
                    losses.append(trainer.step())
            if self.held_out:
                return first_loss, _compute_loss(trial.setup, batches[-1])
        rounds = len(batches)
        return sum(losses[:rounds]) / rounds, sum(losses[-rounds:]) / rounds

    def _check_duration(self, seconds: float) -> None:
        """Raise NotChecked if the timed steps, or those of them that have ended, predict trials that are too long."""
        if 2 * self.steps * seconds / _TIMED_STEPS > self.seconds:
            raise NotChecked(
                f"two trials of {self.steps} steps take more than {self.seconds:.0f} s; budget='thorough' runs them"
            )


def _compute_loss(setup: Setup, batch: Batch) -> float:
    with torch.no_grad(), in_mode(setup.eager_model, False):
        return float(setup.loss(setup.predict(batch), batch))
