"""How much the user's own loss makes of a sample of each class, and of one that is right already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.errors import NotChecked
from nbdebug.evidence.first_pass import Pass, class_axis
from nbdebug.evidence.ledger import measurement
from nbdebug.setup import Setup
from nbdebug.setup.losses import Kind, scores

SURE = 0.9


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
        return max(self.pull.values()) < 1.5 * min(self.pull.values()) and self.fading > 0.5


@measurement
def class_weights(setup: Setup, first_pass: Pass, output: Any, loss_kind: Kind, loss: Tensor) -> Weights:
    """The gradients of the loss on the first batch with every target set to one class after the other."""
    target, logits = first_pass.batch.target, scores(output)
    if setup.loss_fn is None or not isinstance(output, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("loss, output and target are not one callable and two tensors")
    binary = target.shape == logits.shape or logits.numel() == target.numel()
    axis = None if binary else class_axis(setup, first_pass, output, loss_kind)
    classes = 2 if axis is None else logits.shape[axis]

    def pull(number: int, answer: Tensor) -> float:
        answer = answer.detach().clone().requires_grad_()
        batch = replace(first_pass.batch, targets=(torch.full_like(target, number),))
        (gradient,) = torch.autograd.grad(setup.loss(answer, batch), answer)
        return float(gradient.float().norm())

    made = (lambda n, p: one_answer(logits, n, p, loss_kind)) if axis is None else spread_over(logits, axis, loss_kind)
    even = 1 / classes
    found = {number: pull(number, made(number, even)) for number in range(classes)}
    if not all(0 < one < float("inf") for one in found.values()):
        raise NotChecked("the loss of an answer that knows nothing has no finite gradient")
    late = pull(0, made(0, SURE)) / found[0]
    plain = 1.0 if loss_kind in ("nll", "bce") else (1 - SURE) / (1 - even)
    return Weights(found, late / plain)


def one_answer(logits: Tensor, number: int, share: float, kind: Kind) -> Tensor:
    """Yes-or-no outputs that give ``share`` to the class ``number``."""
    positive = torch.full_like(logits, share if number else 1 - share)
    return positive if kind == "bce" else positive.logit()


def spread_over(logits: Tensor, axis: int, kind: Kind) -> Callable[[int, float], Tensor]:
    """What makes log-probabilities, which are logits too, that give a share to one class and the rest to the others."""

    def made(number: int, share: float) -> Tensor:
        rest = (1 - share) / (logits.shape[axis] - 1)
        answer = torch.full_like(logits, rest)
        answer.select(axis, number).fill_(share)
        return answer.log()

    return made
