"""What the user's own loss says of a perfect answer, and of the opposite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.evidence.first_pass import Pass, class_axis, extra_axes
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.output_parts import Ideal, in_parts, softmax_axes
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup, losses
from nbdebug.setup.losses import Kind, scores

SURE, SAMPLES = 6.0, 16
Answers = tuple[Tensor, Tensor]


@slow_measurement
def ideal_loss(setup: Setup, first_pass: Pass, output: Any, loss_kind: Kind, loss: Tensor) -> Ideal:
    """The losses of a right and of a wrong answer to the first batch."""
    target, found = first_pass.batch.target, scores(output)
    if setup.loss_fn is None or not isinstance(found, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("loss, output and target are not one callable and two tensors")
    if part := in_parts(setup, first_pass, output, target):
        return part
    if not isinstance(output, Tensor) and losses.named(setup.loss_fn) == "other":
        raise NotChecked(f"a loss of your own takes the whole {type(output).__name__} that the model returns")

    def of(answer: Tensor) -> float:
        return loss_on(setup, answer.to(found), first_pass.batch)

    tried = answers(setup, first_pass, found, target, loss_kind)
    pairs = [Ideal(of(right), of(wrong)) for right, wrong in tried]
    if len({one.right > one.wrong for one in pairs}) > 1:
        raise NotChecked("the loss of a perfect answer depends on whether outputs are logits or probabilities")
    refuse_unread_targets(setup, first_pass, tried[0][0].to(found), target)
    refuse_mixed_directions(of, tried[0])
    return pairs[0]


def refuse_unread_targets(setup: Setup, first_pass: Pass, answer: Tensor, target: Tensor) -> None:
    """Raise NotChecked where the samples can swap their targets and the loss stays: no answer is right for it."""
    swapped = target.roll(1, 0) if target.dim() else target
    other = replace(first_pass.batch, targets=(swapped,))
    same = loss_on(setup, answer, other) == loss_on(setup, answer, first_pass.batch)
    if same and not torch.equal(swapped, target):
        raise NotChecked("the loss does not read the targets")


def refuse_mixed_directions(of: Callable[[Tensor], float], pair: Answers) -> None:
    """Raise NotChecked where one wrong sample raises the loss and another lowers it, as rewards of both signs do."""
    right, wrong = pair
    best, ways = of(right), set()
    stride = len(right) // SAMPLES | 1  # odd, so that samples of two kinds in turns are both met
    for row in range(0, len(right), stride):
        mixed = right.clone()
        mixed[row] = wrong[row]
        value = of(mixed)
        ways |= {value > best} if value != best else set()
    if len(ways) > 1:
        raise NotChecked("a wrong answer raises the loss for some samples and lowers it for others")


def answers(setup: Setup, first_pass: Pass, output: Tensor, target: Tensor, kind: Kind) -> list[Answers]:
    """Right and wrong answers of the shape of the output: as logits and as probabilities, where either can be meant."""
    if kind in ("cross-entropy", "nll") and not target.is_floating_point():
        return [for_classes(output, target, class_axis(setup, first_pass, output, kind))]
    axes = extra_axes(output, target)
    if axes and axes[0] in softmax_axes(output, first_pass):
        return [for_classes(output, target, axes[0])]
    if output.shape != target.shape:
        raise NotChecked("the output does not have the shape of the target")
    target = target.float()
    if bool(((target == 0) | (target == 1)).all()):
        logits = (2 * target - 1) * SURE
        both = {"bce-with-logits": [(logits, -logits)], "bce": [(logits.sigmoid(), (-logits).sigmoid())]}
        return both.get(kind, [pair for one in both.values() for pair in one])
    if output.dim() == 2 and target.shape[1] > 1 and is_shares(target):
        opposite = (1 - target) / (target.shape[1] - 1)
        return [(share.clamp_min(1e-6).log(), other.clamp_min(1e-6).log()) for share, other in [(target, opposite)]]
    spread = target.std().clamp_min(1e-6) if target.numel() > 1 else torch.ones(())
    return [(target, target + spread), (target, target - spread)]


def is_shares(target: Tensor) -> bool:
    """Whether each row of targets is a distribution over classes."""
    return bool((target >= 0).all()) and bool((target.sum(1) - 1).abs().lt(1e-3).all())


def for_classes(output: Tensor, target: Tensor, axis: int) -> Answers:
    """Log-probabilities, which are logits too, that favor the right class, and those that rule it out."""
    classes = output.shape[axis]
    if classes < 2:
        raise NotChecked("the output has a single class")
    rows = F.one_hot(target.clamp(0, classes - 1), classes).movedim(-1, axis).float()
    return F.log_softmax(rows * SURE, dim=axis), F.log_softmax(-rows * SURE, dim=axis)
