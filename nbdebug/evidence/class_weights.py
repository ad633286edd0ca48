"""How much the user's own loss makes of a sample of each class, and of one that is right already."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.trial import loss_at
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup
from nbdebug.setup.losses import Kind, scores

SURE, EVEN = 0.9, 1.5


@dataclass(frozen=True)
class Weights:
    """The size of the gradient that one sample of each class sends back from an answer that knows nothing.

    ``fading`` is what is left of it once the answer is nearly right, relative to what cross-entropy leaves.
    """

    pull: dict[int, float]
    fading: float

    @property
    def equal(self) -> bool:
        """Whether all classes pull alike, and right answers fade no faster than in cross-entropy."""
        return max(self.pull.values()) < EVEN * min(self.pull.values()) and self.fading > 0.5

    def favors(self, one: int, other: int) -> bool:
        """Whether a sample of one class pulls clearly more than one of another, and right answers do not fade."""
        return self.pull.get(one, 0.0) >= EVEN * self.pull.get(other, math.inf) and self.fading > 0.5


@slow_measurement
def class_weights(setup: Setup, first_pass: Pass, output: Any, loss_kind: Kind, loss: Tensor) -> Weights:
    """The gradients of the loss on the first batch, with the classes one after the other as targets."""
    target, logits = first_pass.batch.target, scores(output)
    if setup.loss_fn is None or not isinstance(output, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("loss, output and target are not one callable and two tensors")
    if not target.dim() or len(target) != target.numel() or logits.dim() > 2 or len(logits) != len(target):
        raise NotChecked("there is not one row of outputs and one class for each sample")
    binary = logits.numel() == target.numel()
    axis = None if binary else 1
    classes = 2 if axis is None else logits.shape[axis]

    numbers = torch.arange(len(target), device=target.device) % classes
    rows = numbers.reshape(-1, *[1] * (target.dim() - 1)).expand_as(target)
    batch = replace(first_pass.batch, targets=(rows.to(target.dtype),))

    def pull(share: float) -> Tensor:
        answer = answers(logits, numbers, axis, share, loss_kind).requires_grad_()
        (gradient,) = torch.autograd.grad(loss_at(setup, answer, batch), answer)
        norms: Tensor = gradient.float().reshape(len(target), -1).norm(dim=1)
        return torch.stack([norms[numbers == number].mean() for number in range(min(classes, len(target)))])

    found = pull(1 / classes)
    if not bool(((found > 0) & found.isfinite()).all()):
        raise NotChecked("the loss of an answer that knows nothing has no finite gradient")
    plain = 1.0 if loss_kind in ("nll", "bce") else (1 - SURE) / (1 - 1 / classes)
    return Weights(dict(enumerate(found.tolist())), float((pull(SURE) / found).mean()) / plain)


def answers(logits: Tensor, numbers: Tensor, axis: int | None, share: float, kind: Kind) -> Tensor:
    """Outputs that give ``share`` to the class of each row: one for yes or no, or log-probabilities over an axis."""
    if axis is None:
        positive = torch.where(numbers > 0, share, 1 - share).to(logits)
        positive = positive.reshape(-1, *[1] * (logits.dim() - 1)).expand_as(logits).clone()
        return positive if kind == "bce" else positive.logit()
    classes = logits.shape[axis]
    chosen = F.one_hot(numbers, classes).to(logits)
    return (chosen * share + (1 - chosen) * (1 - share) / (classes - 1)).log().reshape(logits.shape).detach()
