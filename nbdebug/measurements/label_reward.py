"""How much a classification loss rewards the label: its loss for equal scores, and the lowest that the label allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.forward_pass import ForwardPass, class_axis
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind, get_loss_kind, score_tensor
from nbdebug.setup.source_lines import creation_line
from nbdebug.source.location import get_location

_GAPS = [0.02 * 1.35**i for i in range(23)]  # between the score of the label and the others, up to 15
_USUAL_GAP = 2.0
_MIN_REWARD = 0.05  # of the loss of equal scores
_MAX_EXCESS = 0.5  # of the way from chance to certainty; a loss with a constant part has its minimum beyond it
_SHIFT_TOLERANCE = 1e-4
_MAX_VALUES = 2**21


@dataclass(frozen=True)
class LabelReward:
    """A loss whose ``lowest`` value, with ``probability`` for each label, is close to that of ``equal`` scores.

    ``smoothing`` is the label smoothing of torch's own loss, 0 if it is unknown. ``where`` is the place of the loss.
    """

    equal: float
    lowest: float
    probability: float
    classes: int
    smoothing: float
    where: Location


@measurement
def label_reward(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind | NotChecked,
    loss_calls: list[TorchCall] | NotChecked,
) -> LabelReward | None:
    """The loss of class indices for equal scores and for the best scores, if these hardly differ; None if they do.

    It is that of the setup, or else that of a loop, which is called again with other scores.
    """
    if setup.loss_fn is None:
        calls = loss_calls if isinstance(loss_calls, list) else []
        return next(filter(None, map(_reward_of_call, calls)), None)
    scores, target = score_tensor(output), first_pass.batch.target
    if isinstance(loss_kind, NotChecked) or not isinstance(scores, Tensor) or not isinstance(output, Tensor):
        raise NotChecked("needs a tensor output and a loss of classes")

    def compute(changed: Tensor) -> float:
        return compute_loss_value(setup, changed, first_pass.batch)

    with Preserve(*setup.mutable_objects), torch.no_grad():
        axis = _class_axis(setup, first_pass, scores, loss_kind, compute)
        reward = _search_lowest_loss(
            compute,
            scores,
            target,
            axis,
            float(getattr(setup.loss_fn, "label_smoothing", 0.0)),
            get_location(creation_line(setup, setup.loss_fn)),
        )
    if reward is None or get_loss_kind(setup.loss_fn) != "other":
        return reward
    from nbdebug.tools.overfit.loss_floor import find_loss_floor
    from nbdebug.tools.overfit.tiny_batch import run_tiny_pass

    # A loss of the user's own may favor other classes than the label, such as its neighbors on a scale.
    tiny_pass = run_tiny_pass(setup, first_pass.batch)
    floor = find_loss_floor(setup, tiny_pass, range(tiny_pass.size)).value
    return reward if floor is not None and floor > (1 - _MIN_REWARD) * reward.equal else None


def _class_axis(
    setup: Setup, first_pass: ForwardPass, scores: Tensor, kind: LossKind, compute: Callable[[Tensor], float]
) -> int:
    """Return the class axis; for a function of the user's own, that along which the loss takes a softmax.

    It does if adding a number to all scores of a sample or position, another one for each, leaves the loss as it is.
    """
    if kind in ("cross-entropy", "nll"):
        axis: int = class_axis(setup, first_pass, scores, kind)
        return axis
    target = first_pass.batch.target
    if scores.dim() != 2 or not isinstance(target, Tensor) or target.shape != scores.shape[:1]:
        raise NotChecked("needs a row of class scores for each sample")
    shifted = scores.detach() + torch.arange(len(scores), device=scores.device)[:, None] % 7 - 3.0
    if not math.isclose(compute(shifted), compute(scores.detach().clone()), rel_tol=_SHIFT_TOLERANCE):
        raise NotChecked("the loss takes no softmax of the scores")
    return 1


def _reward_of_call(call: TorchCall) -> LabelReward | None:
    """Measure a call of torch's cross-entropy with class indices."""
    arguments = bind_arguments(F.cross_entropy, call) if call.name == "cross_entropy" else None
    if arguments is None:
        return None
    scores, target = arguments.pop("input"), arguments.pop("target")
    arguments["reduction"] = "mean"
    if not isinstance(scores, Tensor):
        return None
    with torch.no_grad():
        return _search_lowest_loss(
            lambda changed: float(F.cross_entropy(changed, target, **arguments)),
            scores,
            target,
            1 if scores.dim() > 1 else 0,
            float(arguments["label_smoothing"]),
            call.where,
        )


def _search_lowest_loss(
    compute: Callable[[Tensor], float], scores: Tensor, target: Any, axis: int, smoothing: float, where: Location
) -> LabelReward | None:
    """Search the lowest loss among scores that are higher for the label by one gap; None if it is much lower."""
    classes = scores.shape[axis]
    is_index = isinstance(target, Tensor) and not target.is_floating_point() and not target.is_complex()
    if not is_index or classes < 2 or target.numel() * classes != scores.numel() or scores.numel() > _MAX_VALUES:
        return None
    one_hot = F.one_hot(target.detach().long().clamp(0, classes - 1), classes).to(scores)
    positions = [size for position, size in enumerate(scores.shape) if position != axis]
    marked = one_hot.reshape(*positions, classes).movedim(-1, axis)
    losses = {0.0: compute((0 * marked).log_softmax(axis))}
    for gap in sorted(_GAPS, key=lambda gap: abs(gap - _USUAL_GAP)):  # of most losses, one or two are computed
        losses[gap] = compute((gap * marked).log_softmax(axis))
        if not math.isfinite(losses[gap]) or losses[gap] < (1 - _MIN_REWARD) * losses[0.0]:
            return None
    gap = min(losses, key=lambda gap: losses[gap])
    equal, lowest = losses[0.0], losses[gap]
    probability = math.exp(gap) / (math.exp(gap) + classes - 1)
    chance = 1 / classes
    is_uncertain = chance < probability < chance + _MAX_EXCESS * (1 - chance)
    if equal <= 0 or not is_uncertain:
        return None
    return LabelReward(equal, lowest, probability, classes, smoothing, where)
