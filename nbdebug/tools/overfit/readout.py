"""Reads predictions, scores and accuracy of each example from the model output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.setup import Batch, losses
from nbdebug.setup.losses import LossKind
from nbdebug.setup.task import LearningTask
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.overfit.loss_floor import axis_with_sum

_IGNORED_LABEL = -100
_PredictionForm = Literal["classes", "yes or no", "numbers", "none"]
SCORE_LABELS: dict[_PredictionForm, str] = {
    "classes": "p(target)",
    "yes or no": "p(target)",
    "numbers": "error",
    "none": "",
}


@dataclass(frozen=True)
class Readout:
    """Prediction and score of each example, and the accuracy, of one output."""

    prediction: tuple[float, ...] = ()
    score: tuple[float, ...] = ()
    accuracy: float | None = None


@dataclass(frozen=True)
class PredictionReader:
    """Interprets outputs as classes, binary predictions, numbers, or not at all.

    ``targets`` are the class or number of each example, if it has exactly one.
    """

    form: _PredictionForm
    kind: LossKind
    size: int
    targets: tuple[float, ...] = ()

    @property
    def has_single_class(self) -> bool:
        """True if each example has one class as its target."""
        return bool(self.targets) and self.form in ("classes", "yes or no")

    def count_target_values(self, batch: Batch) -> int:
        """Return the number of target values in the batch; a class counts as one, however it is encoded."""
        target = next(iter(tree_tensors(batch.targets)), None)
        if target is None:
            return 0
        if self.form == "classes":
            return target.shape[:1].numel() if target.is_floating_point() else int((target != _IGNORED_LABEL).sum())
        return target.numel()

    @torch.no_grad()
    def read(self, output: Any, batch: Batch) -> Readout:
        """Read an output; the result is empty if shapes do not match."""
        scores, target = _prediction_scores(output), next(iter(tree_tensors(batch.targets)), None)
        if self.form == "none" or scores is None or target is None:
            return Readout()
        read_form = {"classes": self.read_classes, "yes or no": self.read_binary, "numbers": self.read_numbers}[
            self.form
        ]
        try:
            return read_form(scores.detach().float(), target)
        except (RuntimeError, IndexError):
            return Readout()

    def read_classes(self, scores: Tensor, target: Tensor) -> Readout:
        """Read class predictions: the largest of several scores."""
        axis = _class_axis(scores, target)
        if axis is None:
            return Readout()
        if target.is_floating_point():
            target = target.argmax(axis)
        scores = scores.movedim(axis, -1).reshape(target.numel(), -1)
        target = target.reshape(-1)
        is_counted = target != _IGNORED_LABEL
        accuracy = (scores.argmax(-1) == target)[is_counted].float().mean()
        target_probabilities = _class_probabilities(scores, self.kind).gather(1, target.clamp_min(0)[:, None])[:, 0]
        score = _masked_mean(target_probabilities.reshape(self.size, -1), is_counted.reshape(self.size, -1))
        is_one_per_example = len(target) == self.size
        return Readout(_to_floats(scores.argmax(-1)) if is_one_per_example else (), _to_floats(score), float(accuracy))

    def read_binary(self, scores: Tensor, target: Tensor) -> Readout:
        """Read binary predictions: each score is one prediction."""
        probabilities = scores if self.kind == "bce" else scores.sigmoid()
        probabilities, is_positive = probabilities.reshape(self.size, -1), target.reshape(self.size, -1) > 0.5
        score = torch.where(is_positive, probabilities, 1 - probabilities).mean(1)
        is_one_per_example = probabilities.shape[1] == 1
        accuracy = ((probabilities > 0.5) == is_positive).float().mean()
        return Readout(
            _to_floats((probabilities > 0.5)[:, 0]) if is_one_per_example else (), _to_floats(score), float(accuracy)
        )

    def read_numbers(self, scores: Tensor, target: Tensor) -> Readout:
        """Read numeric predictions and their mean absolute error."""
        predicted_values, expected_values = scores.reshape(self.size, -1), target.float().reshape(self.size, -1)
        is_one_per_example = predicted_values.shape[1] == 1
        return Readout(
            _to_floats(predicted_values[:, 0]) if is_one_per_example else (),
            _to_floats((predicted_values - expected_values).abs().mean(1)),
        )


def make_reader(task: LearningTask, kind: LossKind, output: Any, batch: Batch, size: int) -> PredictionReader:
    """Return the reader that fits the task and the shapes of an output."""
    form = _prediction_form(task, kind)
    target, scores = next(iter(tree_tensors(batch.targets)), None), _prediction_scores(output)
    if form == "none" or target is None or scores is None:
        return PredictionReader("none", kind, size)
    if form == "classes":
        axis = _class_axis(scores, target)
        target = target.argmax(axis) if target.is_floating_point() and axis is not None else target
    is_one_per_example = target.numel() == size
    return PredictionReader(form, kind, size, _to_floats(target.reshape(-1)) if is_one_per_example else ())


def _prediction_form(task: LearningTask, kind: LossKind) -> _PredictionForm:
    """Return the form of predictions: by the loss if it is known, else by the task."""
    if kind in ("cross-entropy", "nll"):
        return "classes"
    if kind in ("bce", "bce-with-logits"):
        return "yes or no"
    if kind in ("squared", "absolute") or task.name in ("regression", "reconstruction"):
        return "numbers"
    return "classes" if task.name in ("classification", "language-model") else "none"


def _prediction_scores(output: Any) -> Tensor | None:
    """Return the output tensor that holds the predictions."""
    scores = losses.score_tensor(output)
    return scores if isinstance(scores, Tensor) and scores.is_floating_point() else None


def _class_axis(scores: Tensor, target: Tensor) -> int | None:
    """Return the class axis: the second as in torch's losses, the last, or that of flattened rows."""
    if target.is_floating_point():
        return 1 if scores.shape == target.shape and scores.dim() > 1 else None
    if scores.dim() == target.dim() + 1:
        shapes_without_axis = {axis: tuple(scores.movedim(axis, -1).shape[:-1]) for axis in (1, scores.dim() - 1)}
        return next((axis for axis, shape in shapes_without_axis.items() if shape == tuple(target.shape)), None)
    return 1 if scores.dim() == 2 and scores.shape[0] == target.numel() else None


def _class_probabilities(scores: Tensor, kind: LossKind) -> Tensor:
    """Convert probabilities, log-probabilities or logits to class probabilities."""
    if kind == "nll":
        return scores.exp()
    if bool((scores >= 0).all()) and axis_with_sum(scores, 1.0, squared=False) is not None:
        return scores
    return scores.softmax(-1)


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of each row over the positions where ``mask`` is true."""
    return (values * mask).sum(1) / mask.sum(1).clamp_min(1)


def _to_floats(tensor: Tensor) -> tuple[float, ...]:
    return tuple(float(value) for value in tensor.tolist())
