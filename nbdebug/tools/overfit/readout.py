"""What the output says of each example: its prediction, how near it is to the target, and whether it is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.setup import Batch, losses
from nbdebug.setup.losses import Kind
from nbdebug.setup.task import Task
from nbdebug.setup.trees import tensors
from nbdebug.tools.overfit.domain import summing_axis

IGNORED = -100
Form = Literal["classes", "yes or no", "numbers", "none"]
QUANTITIES: dict[Form, str] = {"classes": "p(target)", "yes or no": "p(target)", "numbers": "error", "none": ""}


@dataclass(frozen=True)
class Readout:
    """Of one output: a prediction and a score for each example, and the share of predictions that are right."""

    prediction: tuple[float, ...] = ()
    score: tuple[float, ...] = ()
    accuracy: float | None = None


@dataclass(frozen=True)
class Reader:
    """How outputs are read: as classes, as answers yes or no, as numbers, or not at all.

    ``targets`` are the class or number of each example, where it has one of its own.
    """

    form: Form
    kind: Kind
    size: int
    targets: tuple[float, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether each example has one class for its target."""
        return bool(self.targets) and self.form in ("classes", "yes or no")

    def needed(self, batch: Batch) -> int:
        """The number of values that the targets of the batch hold; a class is one, however it is encoded."""
        target = next(iter(tensors(batch.targets)), None)
        if target is None:
            return 0
        if self.form == "classes":
            return target.shape[:1].numel() if target.is_floating_point() else int((target != IGNORED).sum())
        return target.numel()

    @torch.no_grad()
    def read(self, output: Any, batch: Batch) -> Readout:
        """What the output says of each example; nothing where shapes do not allow to tell."""
        scores, target = numbers_of(output), next(iter(tensors(batch.targets)), None)
        if self.form == "none" or scores is None or target is None:
            return Readout()
        read = {"classes": self.classes, "yes or no": self.answers, "numbers": self.numbers}[self.form]
        try:
            return read(scores.detach().float(), target)
        except (RuntimeError, IndexError):
            return Readout()

    def classes(self, scores: Tensor, target: Tensor) -> Readout:
        """Cross-entropy and its like: the largest of several scores."""
        axis = class_axis(scores, target)
        if axis is None:
            return Readout()
        if target.is_floating_point():
            target = target.argmax(axis)
        scores = scores.movedim(axis, -1).reshape(target.numel(), -1)
        target = target.reshape(-1)
        real = target != IGNORED
        right = (scores.argmax(-1) == target)[real].float().mean()
        p = probabilities(scores, self.kind).gather(1, target.clamp_min(0)[:, None])[:, 0]
        score = mean_where(p.reshape(self.size, -1), real.reshape(self.size, -1))
        single = len(target) == self.size
        return Readout(listed(scores.argmax(-1)) if single else (), listed(score), float(right))

    def answers(self, scores: Tensor, target: Tensor) -> Readout:
        """Binary cross-entropy and its like: each score is an answer of its own."""
        p = scores if self.kind == "bce" else scores.sigmoid()
        p, yes = p.reshape(self.size, -1), target.reshape(self.size, -1) > 0.5
        score = torch.where(yes, p, 1 - p).mean(1)
        single = p.shape[1] == 1
        right = ((p > 0.5) == yes).float().mean()
        return Readout(listed((p > 0.5)[:, 0]) if single else (), listed(score), float(right))

    def numbers(self, scores: Tensor, target: Tensor) -> Readout:
        """Regression: how far off the numbers are in the mean."""
        got, wanted = scores.reshape(self.size, -1), target.float().reshape(self.size, -1)
        single = got.shape[1] == 1
        return Readout(listed(got[:, 0]) if single else (), listed((got - wanted).abs().mean(1)))


def reader(task: Task, kind: Kind, output: Any, batch: Batch, size: int) -> Reader:
    """The reading that fits the task and the shapes of one output."""
    form = form_of(task, kind)
    target, scores = next(iter(tensors(batch.targets)), None), numbers_of(output)
    if form == "none" or target is None or scores is None:
        return Reader("none", kind, size)
    if form == "classes":
        axis = class_axis(scores, target)
        target = target.argmax(axis) if target.is_floating_point() and axis is not None else target
    single = target.numel() == size
    return Reader(form, kind, size, listed(target.reshape(-1)) if single else ())


def form_of(task: Task, kind: Kind) -> Form:
    """The loss decides where it is a known one, else the task."""
    if kind in ("cross-entropy", "nll"):
        return "classes"
    if kind in ("bce", "bce-with-logits"):
        return "yes or no"
    if kind in ("squared", "absolute") or task.name in ("regression", "reconstruction"):
        return "numbers"
    return "classes" if task.name in ("classification", "language-model") else "none"


def numbers_of(output: Any) -> Tensor | None:
    """The tensor of the output that holds the predictions."""
    found = losses.scores(output)
    return found if isinstance(found, Tensor) and found.is_floating_point() else None


def class_axis(scores: Tensor, target: Tensor) -> int | None:
    """The axis of the classes: the second as in torch's losses, the last, or that of flattened rows."""
    if target.is_floating_point():
        return 1 if scores.shape == target.shape and scores.dim() > 1 else None
    if scores.dim() == target.dim() + 1:
        rest = {axis: tuple(scores.movedim(axis, -1).shape[:-1]) for axis in (1, scores.dim() - 1)}
        return next((axis for axis, shape in rest.items() if shape == tuple(target.shape)), None)
    return 1 if scores.dim() == 2 and scores.shape[0] == target.numel() else None


def probabilities(scores: Tensor, kind: Kind) -> Tensor:
    """Probabilities of classes, whether the scores are these, their logarithms or logits."""
    if kind == "nll":
        return scores.exp()
    if bool((scores >= 0).all()) and summing_axis(scores, 1.0, squared=False) is not None:
        return scores
    return scores.softmax(-1)


def mean_where(values: Tensor, real: Tensor) -> Tensor:
    """The mean of each row over the places that count."""
    return (values * real).sum(1) / real.sum(1).clamp_min(1)


def listed(tensor: Tensor) -> tuple[float, ...]:
    """The numbers of a tensor."""
    return tuple(float(one) for one in tensor.tolist())
