"""The score by which the runs with and without a change are compared, on the same samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.measurements import Measurements
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.losses import get_loss_kind
from nbdebug.tools.treatments.score import ScoreMeter
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.validation import validate_number

OwnScore = Callable[[TreatedSetup], float]
_LEAST_RISING_SHARE = 0.9  # of the samples, whose gradient a saturated score may hide


class RunScore:
    """Scores copies of one arm: accuracy, explained variance or the decrease of the loss, higher is better.

    The samples are those of the user's validation split, if there is one. A change that replaces the data or the kind
    of loss is scored by the same metric on its own. Scores below ``floor`` are cut off, since a diverged run and a
    useless one are equally bad. Raises SetupError if the metric differs.
    """

    def __init__(self, setup: Setup, own_score: OwnScore | None = None) -> None:
        self._own_score = own_score
        self.meter = _create_meter(setup)
        self._meters_of_changes: list[ScoreMeter] = []
        self.batches = self.meter.training_batches()  # from which changes measure statistics

    @property
    def metric(self) -> str:
        """The name of the score with its split, such as "validation accuracy"."""
        if self._own_score is not None:
            return "your score"
        return f"{'validation' if self.meter.split == 'val' else 'training'} {self.meter.metric}"

    @property
    def loss_kind(self) -> Any:
        """The kind of the user's loss."""
        return self.meter.loss_kind

    def for_change(self) -> RunScore:
        """Return the score of another arm, which may need samples of its own."""
        other = object.__new__(RunScore)
        other._own_score, other.meter, other._meters_of_changes = self._own_score, self.meter, []
        other.batches = self.batches
        return other

    def for_setup(self, setup: Setup) -> RunScore:
        """Return the same score of another setup, on its own samples; raises SetupError if the metric differs."""
        other = RunScore(setup, self._own_score)
        self._check_metric(other.meter)
        return other

    def __call__(self, treated: TreatedSetup) -> float:
        """Return the score of a copy, at least that of a model that has learned nothing."""
        if self._own_score is not None:
            with torch.no_grad(), in_mode(treated.model, False):
                return validate_number("score", float(self._own_score(treated)), "Return a finite number")
        meter, floor = self._meter_for(treated), self.meter.floor
        score = meter.score_model(self._with_comparable_loss(treated.setup), treated.prediction_of)
        return max(score, floor) if isfinite(score) else floor

    def lowest(self, scores: Sequence[float]) -> float:
        """Return the score of a model that has learned nothing; of one's own score, the lowest of a run."""
        return min(scores) if self._own_score is not None else self.meter.floor

    def _meter_for(self, treated: TreatedSetup) -> ScoreMeter:
        if self._is_scored_alike(treated):
            return self.meter
        if not self._meters_of_changes:
            setup = replace(treated.setup, optimizers=tuple(treated.optimizers))
            self._meters_of_changes.append(_create_meter(setup))
        self._check_metric(self._meters_of_changes[0])
        return self._meters_of_changes[0]

    def _check_metric(self, meter: ScoreMeter) -> None:
        if self._own_score is None and meter.metric.removeprefix("balanced ") != self.meter.metric.removeprefix(
            "balanced "
        ):
            raise SetupError(
                f"the metric of the setup is {self.meter.metric}, and that of the changed one {meter.metric}; "
                "expected the same. Pass score=, a function of the copy that returns a number."
            )

    def _is_scored_alike(self, treated: TreatedSetup) -> bool:
        """Check whether the samples and the form of the outputs are those of the user's setup."""
        name = "train_loader" if self.meter.split == "train" else "val_loader"
        own, changed = getattr(self.meter.setup, name), getattr(treated.setup, name)
        same_data = getattr(own, "dataset", own) is getattr(changed, "dataset", changed)
        is_same_kind = get_loss_kind(treated.loss_fn) in (get_loss_kind(self.meter.setup.loss_fn), "other")
        return same_data and is_same_kind and treated.setup.unpack is self.meter.setup.unpack

    def _with_comparable_loss(self, setup: Setup) -> Setup:
        """Return a setup with the user's loss, if losses are compared on the user's samples."""
        if not self.meter.compares_losses or self._meters_of_changes:
            return setup
        return replace(setup, loss_fn=self.meter.setup.loss_fn)


def _create_meter(setup: Setup) -> ScoreMeter:
    """Return the meter of a setup; a custom loss of class scores, such as a focal loss, counts as cross-entropy."""
    measured = replace(setup, loss_fn=nn.CrossEntropyLoss()) if _predicts_classes(setup) else setup
    return ScoreMeter(setup, Measurements(measured), balances_classes=True)


def _predicts_classes(setup: Setup) -> bool:
    """Check whether the gradient of a custom loss raises the score of each sample's class relative to the others."""
    is_custom = setup.step_fn is None and setup.loss_fn is not None and get_loss_kind(setup.loss_fn) == "other"
    if not is_custom:
        return False
    batch = next(setup.batches(1))
    with torch.no_grad(), in_mode(setup.eager_model, False):
        scores = setup.predict(batch)
    target = batch.target
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor) or target.is_floating_point():
        return False
    if scores.dim() != 2 or target.shape != scores.shape[:1] or not 0 <= int(target.min()) <= int(target.max()):
        return False
    if scores.shape[1] < max(2, int(target.max()) + 1):
        return False
    scores = scores.detach().requires_grad_(True)
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(setup.loss(scores, batch), scores, allow_unused=True)
    if gradient is None or not bool(gradient.isfinite().all()):
        return False
    rises = gradient.gather(1, target[:, None])[:, 0] < gradient.mean(1)
    return float(rises.float().mean()) >= _LEAST_RISING_SHARE
