"""The score by which treated copies are compared: accuracy, explained variance, or the decrease of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nbdebug.baselines.reference_learner import Floats, Targets
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.reference_targets import NetworkOutputs
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.losses import LossKind
from nbdebug.tools.treatments.treated_setup import TreatedSetup

_MAX_BATCHES = 8
_IMBALANCED_SHARE = 0.8  # of the largest class, from which on a constant prediction has a high accuracy


class ScoreMeter:
    """Scores treated copies on the same samples, those of the validation split if there is one.

    With one target per sample, that a reference learner could predict, it is the accuracy or the explained variance.
    Otherwise it is the share of the initial loss that training has removed, and treatments that change the loss cannot
    be compared (``compares_losses``). With ``balances_classes``, imbalanced classes are scored by the balanced
    accuracy. Raises SetupError if the setup has no loss that can be computed.
    """

    def __init__(self, setup: Setup, measurements: Measurements, *, balances_classes: bool = False) -> None:
        self.setup, self._balances_classes = setup, balances_classes
        self.split: Literal["train", "val"] = "train" if setup.val_loader is None else "val"
        self.loss_kind: LossKind = "other"
        self.targets: Targets | None = None
        self.scored_rows = np.arange(0)
        self.reference_score: float | None = None
        self.batches: list[Batch] = []
        try:
            self.loss_kind = measurements["torch_loss_kind"]
            self._read_reference(measurements["reference"])
        except NotChecked:
            self.targets = self.reference_score = None
            self.batches = list(setup.batches(_MAX_BATCHES, self.split))
        self.initial_loss = self._mean_loss(setup) if self.targets is None else 1.0

    @property
    def metric(self) -> str:
        """The name of the score."""
        if self.targets is None:
            return "share of the initial loss removed"
        return f"balanced {self.targets.metric}" if self.is_balanced else self.targets.metric

    @property
    def is_balanced(self) -> bool:
        """True if each class has the same total weight in the score."""
        is_imbalanced = self.targets is not None and self.targets.constant_score >= _IMBALANCED_SHARE
        return self._balances_classes and is_imbalanced

    @property
    def floor(self) -> float:
        """The score of a run that has learned nothing, at which lower ones are cut off."""
        return -1.0 if self.targets is None else 0.0

    @property
    def compares_losses(self) -> bool:
        """True if the score is made of losses."""
        return self.targets is None

    def training_batches(self) -> list[Batch]:
        """Return some training batches, from which treatments measure statistics."""
        return self.batches if self.split == "train" else list(self.setup.batches(_MAX_BATCHES))

    def _read_reference(self, reference: Reference) -> None:
        rows = reference.rows(self.split)
        self.batches = rows.batches[:_MAX_BATCHES]
        count = sum(batch.size for batch in self.batches)
        self.scored_rows = rows.kept[rows.kept < count]
        self.targets = rows.targets.take(slice(len(self.scored_rows)))
        self.reference_score = rows.prediction.score
        with torch.no_grad(), in_mode(self.setup.eager_model, False):
            self._score_outputs(self.setup.predict(batch) for batch in self.batches)

    def score(self, treated: TreatedSetup) -> float:
        """Return the score of a treated copy."""
        return self.score_model(treated.setup, treated.prediction_of)

    @torch.no_grad()
    def score_model(self, setup: Setup, prediction_of: Callable[[Any], Any] = lambda output: output) -> float:
        """Return the score of a model in eval mode; -inf if its outputs are not finite."""
        if self.targets is None:
            loss = self._mean_loss(setup)
            return 1 - loss / self.initial_loss if np.isfinite(loss) else -np.inf
        with in_mode(setup.eager_model, False):
            outputs = [prediction_of(setup.predict(batch)) for batch in self.batches]
        if not all(bool(output.isfinite().all()) for output in outputs if isinstance(output, Tensor)):
            return -np.inf
        return self._score_outputs(outputs)

    def _score_outputs(self, outputs: Any) -> float:
        assert self.targets is not None
        network = NetworkOutputs(self.loss_kind, self.targets.kind)
        for output, batch in zip(outputs, self.batches, strict=True):
            network.add(output, batch.size)
        return self.score_predictions(network.predictions(self.scored_rows, self.targets))

    def score_predictions(self, predictions: Floats) -> float:
        """Return the score of predictions of the scored rows, with the columns of their targets."""
        assert self.targets is not None
        score_rows = self.targets.balanced_agreement if self.is_balanced else self.targets.agreement
        return float(score_rows(predictions).mean())

    @torch.no_grad()
    def _mean_loss(self, setup: Setup) -> float:
        with in_mode(setup.eager_model, False):
            losses = [float(setup.output_and_loss(batch)[1]) for batch in self.batches]
        if not losses:
            raise SetupError("the loader has no batch; expected at least one. Check len(dataset) and drop_last.")
        return sum(losses) / len(losses)
