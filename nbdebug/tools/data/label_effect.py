"""Retrains without the most suspect labels, or with the predicted ones, and compares the validation score."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.baselines.reference_learner import Targets
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.reference_targets import NetworkOutputs, to_targets
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.losses import LossKind, ignore_index
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.data.changed_loader import ChangedBatches, check_loader
from nbdebug.tools.data.label_effect_result import ACTIONS, LabelAction, LabelEffect
from nbdebug.tools.data.result import DataProfile
from nbdebug.tools.data.suspects import SuspectLabel
from nbdebug.training.model_copy import copy_obstacle, initialize_weights, trainable_setup
from nbdebug.training.trainer import Trainer
from nbdebug.validation import check_whole_number, validate_choice
from nbdebug.views.live import LiveScreen, Screen, show_view

_MIN_STEPS, _MAX_STEPS, _MIN_SEEDS, _MAX_SEEDS = 20, 100_000, 2, 50
_MAX_BATCHES = 200
_SECONDS_BETWEEN_UPDATES = 0.5

_Correct = NDArray[np.float64]


class _ValidationMeter:
    """Measures for each validation sample whether a model predicts its class."""

    def __init__(self, setup: Setup) -> None:
        measurements = Measurements(setup)
        try:
            self.loss_kind: LossKind = measurements["torch_loss_kind"]
            task = measurements["task"]
            self.batches = list(setup.batches(_MAX_BATCHES, "val"))
            targets = torch.cat([torch.as_tensor(batch.target) for batch in self.batches])
            self.targets, self.rows = to_targets(task, self.loss_kind, targets, ignore_index(setup.loss_fn))
        except (NotChecked, TypeError, RuntimeError) as reason:
            raise SetupError(f"the validation score cannot be computed: {reason}. Pass one class per sample.") from None
        if self.targets.kind != "classes":
            raise SetupError("the targets are not one class per sample; expected classes. Retrain by your own loop.")

    @torch.no_grad()
    def measure(self, setup: Setup) -> _Correct:
        """Return 1 for each sample whose class is predicted, else 0, in eval mode."""
        outputs = NetworkOutputs(self.loss_kind, self.targets.kind)
        with in_mode(setup.eager_model, False):
            for batch in self.batches:
                outputs.add(setup.predict(batch), batch.size)
        taken: Targets = self.targets.take(self.rows) if len(self.targets) != len(self.rows) else self.targets
        return taken.agreement(outputs.predictions(self.rows, taken))


@dataclass
class _EffectRunner:
    """Trains copies with each seed, with the labels as they are and with the changed ones."""

    setup: Setup
    suspects: Sequence[SuspectLabel]
    action: LabelAction
    steps: int
    seeds: int
    initialize: bool
    correct: dict[str, list[_Correct]] = field(default_factory=lambda: {"as is": [], "changed": []})
    steps_done: int = 0
    stopped: bool = False

    def __post_init__(self) -> None:
        self.started = self.updated = time.perf_counter()
        self.meter = _ValidationMeter(self.setup)

    def run(self, screen: Screen) -> None:
        """Train all copies; an interrupt acts as Stop in a notebook, else it is raised."""
        try:
            for seed in range(self.seeds):
                for variant in self.correct:
                    if self.stopped:
                        return
                    self.train_copy(seed, variant, screen)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise

    def train_copy(self, seed: int, variant: str, screen: Screen) -> None:
        """Train one copy, and measure it unless training was stopped."""
        preserved = Preserve(*self.setup.mutable_objects, loaders=(self.setup.train_loader, self.setup.val_loader))
        with preserved, trainable_setup(self.setup, in_place=False) as trainable, torch.enable_grad():
            seed_all(seed)
            if self.initialize:
                initialize_weights(trainable.setup.eager_model)
            optimizers = trainable.rebuild_optimizers(self.setup.optimizers, self.setup.scheduler is not None)
            trainer = Trainer(trainable.setup, optimizers or [trainable.adam()], self.batches(variant, seed))
            with UserCodeErrors(lambda: "while a copy was trained"):
                for _ in range(self.steps):
                    trainer.step()
                    self.update(screen)
                    if self.stopped:
                        return
                self.correct[variant].append(self.meter.measure(trainable.setup))

    def batches(self, variant: str, seed: int) -> ChangedBatches:
        """Return the training batches of a variant."""
        indices = [suspect.index for suspect in self.suspects] if variant == "changed" else []
        if self.action == "remove":
            return ChangedBatches(self.setup, frozenset(indices), {}, seed)
        labels = {suspect.index: suspect.predicted for suspect in self.suspects} if indices else {}
        return ChangedBatches(self.setup, frozenset(), labels, seed)

    def update(self, screen: Screen) -> None:
        """Show the partial result if it is due."""
        self.steps_done += 1
        self.stopped = self.stopped or screen.stopped
        if isinstance(screen, LiveScreen) and time.perf_counter() - self.updated > _SECONDS_BETWEEN_UPDATES:
            screen.update(self.result().table(live=True))
            self.updated = time.perf_counter()

    def result(self) -> LabelEffect:
        """Return the result of the seeds that were trained with both variants."""
        count = min(map(len, self.correct.values()))
        before, after = (tuple(float(rows.mean()) for rows in self.correct[name][:count]) for name in self.correct)
        differences = [
            after - before for before, after in zip(*(self.correct[name][:count] for name in self.correct), strict=True)
        ]
        return LabelEffect(
            self.action,
            tuple(suspect.index for suspect in self.suspects),
            before,
            after,
            np.mean(differences, 0) if differences else np.zeros(0),
            self.steps,
            len(self.meter.rows),
            self.initialize,
            time.perf_counter() - self.started,
            self.stopped,
        )


def label_effect(
    setup: Setup,
    profile: DataProfile,
    *,
    k: int | None = None,
    action: LabelAction = "relabel",
    steps: int = 300,
    seeds: int = 5,
    initialize: bool = True,
) -> LabelEffect:
    """Train copies with and without the ``k`` most suspect training labels, and compare the validation score.

    ``action`` is "relabel" with the predicted classes, or "remove". Both variants of a seed start from the same
    weights: new ones, or the present ones unless ``initialize``. All suspects are changed unless ``k`` is given. Raises
    SetupError for a setup without validation loader or without one class per sample, and for data without suspects.
    """
    validate_choice("action", action, ACTIONS)
    check_whole_number("steps", steps, _MIN_STEPS, _MAX_STEPS)
    check_whole_number("seeds", seeds, _MIN_SEEDS, _MAX_SEEDS)
    suspects = _choose_suspects(profile, k)
    if setup.val_loader is None:
        raise SetupError("there is no val_loader; expected one, on which the effect is measured. Pass val_loader=.")
    check_loader(setup.train_loader)
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        with UserCodeErrors(lambda: "before the first copy was trained"):
            batch: Batch = next(setup.batches(1))
            if obstacle := copy_obstacle(setup, batch):
                raise SetupError(f"the effect needs a copy of the model, but {obstacle}. Retrain by your own loop.")
        runner = _EffectRunner(setup, suspects, action, steps, seeds, initialize)
    with show_view(runner.result().table(live=True)) as screen:
        runner.run(screen)
        result = runner.result()
        screen.finish(result)
    return result


def _choose_suspects(profile: DataProfile, k: int | None) -> tuple[SuspectLabel, ...]:
    """Return the most suspect training labels; raise SetupError if there are none or fewer than ``k``."""
    quality = profile.labels.get_split("train")
    if quality is None:
        raise SetupError(f"the labels were not judged: {profile.labels.reason}. Pass one class per sample.")
    suspects = quality.suspects if k is None else quality.ranked
    if k is not None:
        check_whole_number("k", k, 1, len(quality.ranked))
    if not suspects:
        raise SetupError("no training label is suspect; expected at least one. Pass k= for the most doubtful ones.")
    return suspects[:k]
