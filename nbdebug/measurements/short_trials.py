"""Short trials: copies of a model are trained on the first batches, as they are and with one change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import cycle

import torch
from torch.overrides import TorchFunctionMode

from nbdebug.exceptions import NotChecked
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.training.model_copy import copy_obstacle, trainable_setup
from nbdebug.training.trainer import Trainer

_MAX_PRODUCTS = 2e7  # of parameters and samples of a batch, so that both trials are short on any machine
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

    def is_hindered(self, progress: float) -> bool:
        """Return whether the model gains less than a share of what it gains with the change."""
        gain = self.initial_loss - self.changed_loss
        has_comparable_start = self.changed_initial_loss < _MAX_INITIAL_RISE * self.initial_loss
        return has_comparable_start and gain > 0 and self.initial_loss - self.loss < progress * gain


def run_trials(
    setup: Setup,
    batches: Sequence[Batch],
    steps: int,
    *,
    changed_batches: Sequence[Batch] | None = None,
    intervention: Intervention | None = None,
) -> TrialPair:
    """Return the losses of two trials with the user's optimizer, the second one with other batches or other calls.

    Raises NotChecked if copies cannot be trained, or not in a short time.
    """
    if len(setup.optimizers) != 1 or setup.step_fn is not None:
        raise NotChecked("a trial needs one optimizer and a loss of the output")
    parameters = sum(p.numel() for p in setup.eager_model.parameters())
    if parameters * max(batches[0].size, 1) > _MAX_PRODUCTS:
        raise NotChecked("the model and its batches are too large for two trials")
    with Preserve(*setup.mutable_objects), torch.enable_grad():
        if obstacle := copy_obstacle(setup, batches[0]):
            raise NotChecked(obstacle)
        losses = _run_trial(setup, batches, steps, None)
        changed_losses = _run_trial(setup, changed_batches or batches, steps, intervention)
    rounds = len(batches)
    means = [sum(part) / rounds for values in (losses, changed_losses) for part in (values[:rounds], values[-rounds:])]
    if not all(map(math.isfinite, means)):
        raise NotChecked("the loss of a trial is not finite")
    return TrialPair(steps, *means)


def _run_trial(setup: Setup, batches: Sequence[Batch], steps: int, intervention: Intervention | None) -> list[float]:
    """Return the losses of a copy of the model, trained on some batches with the user's optimizer."""
    seed_all(0)
    losses = []
    with trainable_setup(setup, in_place=False) as trial:
        optimizers = trial.rebuild_optimizers(setup.optimizers, has_scheduler=setup.scheduler is not None)
        trainer = Trainer(trial.setup, optimizers, cycle(batches))
        if trainer.has_closures:
            raise NotChecked("a trial needs an optimizer that does not evaluate the loss itself")
        for step in range(steps):
            if intervention is not None:
                intervention.start(batches[step % len(batches)].size)
            with intervention or nullcontext():
                losses.append(trainer.step())
    return losses
