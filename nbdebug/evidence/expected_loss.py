"""What the user's own loss gives to answers that know nothing of the input."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.first_pass import class_axis as class_axis_of
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup, losses
from nbdebug.setup.losses import Kind, scores
from nbdebug.setup.task import Task


@dataclass(frozen=True)
class Expected:
    """The loss of the uniform answer and of the label frequencies; for real targets, both are that of their mean.

    ``classes`` is 0 for a regression, whose targets have ``mean`` and ``std``; ``squared`` says how errors count.
    """

    uniform: float
    prior: float
    classes: int = 0
    mean: float = 0.0
    std: float = 0.0
    squared: bool = True


@measurement
def expected_loss(setup: Setup, first_pass: Pass, output: Any, task: Task, loss_kind: Kind, loss: Tensor) -> Expected:
    """The user's loss of constant answers to the first batch: uniform, label frequencies, mean of the targets."""
    target = first_pass.batch.target
    if setup.loss_fn is None or not isinstance(scores(output), Tensor) or not isinstance(target, Tensor):
        raise NotChecked("loss, output and target are not one callable and two tensors")
    if not isinstance(output, Tensor) and losses.named(setup.loss_fn) == "other":
        raise NotChecked(f"a loss of your own takes the whole {type(output).__name__} that the model returns")
    logits = scores(output).detach()

    def of(answer: Tensor) -> float:
        return loss_on(setup, spread(answer, logits), first_pass.batch)

    if loss_kind in ("cross-entropy", "nll"):
        return for_classes(logits, target, class_axis_of(setup, first_pass, output, loss_kind), of)
    if loss_kind in ("bce", "bce-with-logits"):
        return for_probabilities(logits, target, of, loss_kind)
    if task.name in ("regression", "reconstruction") and loss_kind in ("squared", "absolute"):
        return for_values(target, of, loss_kind == "squared" or is_squared(target, of))
    raise NotChecked(f"no constant answer is known for the task {task.name} with a loss of your own")


def spread(answer: Tensor, logits: Tensor) -> Tensor:
    """One answer for every sample; raises NotChecked where it is of another shape than the output."""
    try:
        return answer.expand_as(logits).clone()
    except RuntimeError:
        raise NotChecked("the output does not have the shape of the target") from None


def for_classes(logits: Tensor, target: Tensor, axis: int, of: Callable[[Tensor], float]) -> Expected:
    """Equal log-probabilities, and those of the label frequencies; both are logits and log-probabilities at once."""
    classes = logits.shape[axis]
    if classes < 2:
        raise NotChecked("the output has a single class")
    if target.is_floating_point():
        frequency = target.mean(tuple(d for d in range(target.dim()) if d != axis))
    else:
        inside = target[(target >= 0) & (target < classes)]
        frequency = torch.bincount(inside.flatten(), minlength=classes) / max(inside.numel(), 1)
    shape = [classes if d == axis else 1 for d in range(logits.dim())]
    uniform = torch.full(shape, -math.log(classes), dtype=logits.dtype, device=logits.device)
    prior = frequency.clamp_min(1e-12).log().to(logits).reshape(shape)
    return checked(Expected(of(uniform), of(prior), classes))


def for_probabilities(logits: Tensor, target: Tensor, of: Callable[[Tensor], float], kind: Kind) -> Expected:
    """One half for every output, and its share of positives."""
    share = target.float().mean(0, keepdim=True).clamp(1e-6, 1 - 1e-6).to(logits)
    half = torch.full_like(share, 0.5)
    if kind == "bce":
        return checked(Expected(of(half), of(share), 2))
    return checked(Expected(of(half.logit()), of(share.logit()), 2))


def is_squared(target: Tensor, of: Callable[[Tensor], float]) -> bool:
    """Whether errors as large as those of a first answer near zero still count squared, as Huber's do up to a bound."""
    error = 0.5 * float(target.float().square().mean().sqrt())
    try:
        once, twice = of(target + error), of(target + 2 * error)
    except NotChecked:
        return False
    return once > 0 and twice / once > 2**1.5


def for_values(target: Tensor, of: Callable[[Tensor], float], squared: bool) -> Expected:
    """The mean of the targets for every sample."""
    mean = target.float().mean(0, keepdim=True)
    constant = of(mean)
    spread = float(target.float().std()) if target.numel() > 1 else 0.0
    return checked(Expected(constant, constant, 0, float(mean.mean()), spread, squared))


def checked(expected: Expected) -> Expected:
    """The same, unless the loss of a constant is not a positive number to compare with."""
    if not math.isfinite(expected.uniform) or expected.uniform <= 0:
        raise NotChecked(f"the loss of a constant answer is {expected.uniform:.3g}")
    return expected
