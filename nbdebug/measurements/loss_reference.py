"""The loss of constant, perfect and wrong predictions, and baseline models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd import Graph, Node
from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass, class_axis, get_extra_axes
from nbdebug.measurements.forward_pass import class_axis as class_axis_of
from nbdebug.measurements.loss_sensitivity import IdealLoss, get_ideal_loss_of_part, get_softmax_axes
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.setup import Setup, losses
from nbdebug.setup.losses import LossKind, score_tensor
from nbdebug.setup.task import LearningTask
from nbdebug.tensors.pytree import tree_map

if TYPE_CHECKING:
    from nbdebug.baselines.baselines import Baselines
    from nbdebug.tools.errors import Errors

_LOGIT_SCALE, _MAX_TESTED_SAMPLES = 6.0, 16
_MAX_EXCHANGED, _MIN_INTERACTION = 4, 1e-6  # elements, and the effect relative to the loss: float32 rounding
_OutputPair = tuple[Tensor, Tensor]
_MAX_LOSS_RATIO = 0.7  # relative to the loss of a constant prediction; a new head is at 1 or above
_MAX_SECONDS = 1.5
_MAX_TARGETS = 32


@dataclass(frozen=True)
class ExpectedLoss:
    """Loss of the uniform prediction and of the label frequencies; for regression, both are the loss of the mean.

    ``classes`` is 0 for a regression, whose targets have ``mean`` and ``std``; ``is_squared`` is True for squared
    errors.
    """

    uniform: float
    prior: float
    classes: int = 0
    mean: float = 0.0
    std: float = 0.0
    is_squared: bool = True


@measurement
def expected_loss(
    setup: Setup, first_pass: ForwardPass, output: Any, task: LearningTask, loss_kind: LossKind, loss: Tensor
) -> ExpectedLoss:
    """The user's loss on the first batch for constant predictions: uniform, label frequencies, target mean."""
    target = first_pass.batch.target
    if setup.loss_fn is None or not isinstance(score_tensor(output), Tensor) or not isinstance(target, Tensor):
        raise NotChecked("needs a callable loss, a tensor output and a tensor target")
    if not isinstance(output, Tensor) and losses.get_loss_kind(setup.loss_fn) == "other":
        raise NotChecked(f"a custom loss takes the whole {type(output).__name__} that the model returns")
    logits = score_tensor(output).detach()

    def compute_constant_loss(prediction: Tensor) -> float:
        return compute_loss_value(setup, _expand_prediction(prediction, logits), first_pass.batch)

    if loss_kind in ("cross-entropy", "nll"):
        return _get_expected_for_classes(
            logits, target, class_axis_of(setup, first_pass, output, loss_kind), compute_constant_loss
        )
    if loss_kind in ("bce", "bce-with-logits"):
        return _get_expected_for_probabilities(logits, target, compute_constant_loss, loss_kind)
    if task.name in ("regression", "reconstruction") and loss_kind in ("squared", "absolute"):
        return _get_expected_for_values(
            target, compute_constant_loss, loss_kind == "squared" or _is_squared(target, compute_constant_loss)
        )
    raise NotChecked(f"no constant prediction is known for the task {task.name} with a custom loss")


@measurement
def target_shares(setup: Setup, first_pass: ForwardPass, output: Any, task: LearningTask) -> dict[int, float]:
    """The share of each target in the user's loss if the mean is predicted for it; for a regression of several targets.

    The others are predicted perfectly meanwhile. Targets that are constant in the first batch are left out.
    """
    target = first_pass.batch.target
    if setup.loss_fn is None or not isinstance(output, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("needs a callable loss, a tensor output and a tensor target")
    has_columns = target.dim() == 2 and 1 < target.shape[1] <= _MAX_TARGETS and target.is_floating_point()
    if task.name != "regression" or output.shape != target.shape or not has_columns:
        raise NotChecked(f"needs a regression of 2 to {_MAX_TARGETS} targets")
    lowest = compute_loss_value(setup, target.to(output), first_pass.batch)
    excess: dict[int, float] = {}
    for column in range(target.shape[1]):
        prediction = target.to(output).clone()
        prediction[:, column] = prediction[:, column].mean()
        if not torch.equal(prediction, target.to(output)):
            excess[column] = compute_loss_value(setup, prediction, first_pass.batch) - lowest
    if len(excess) < 2 or min(excess.values()) < 0 or not 0 < sum(excess.values()) < math.inf:
        raise NotChecked("the loss is not lowest for a perfect prediction, or fewer than two targets vary")
    return {column: value / sum(excess.values()) for column, value in excess.items()}


def _expand_prediction(prediction: Tensor, logits: Tensor) -> Tensor:
    """Expand one prediction to all samples; raise NotChecked if the shape differs from the output."""
    try:
        return prediction.expand_as(logits).clone()
    except RuntimeError:
        raise NotChecked("the output does not have the shape of the target") from None


def _get_expected_for_classes(
    logits: Tensor, target: Tensor, axis: int, compute_constant_loss: Callable[[Tensor], float]
) -> ExpectedLoss:
    """Evaluate uniform log-probabilities and log label frequencies, which are valid as logits too."""
    classes = logits.shape[axis]
    if classes < 2:
        raise NotChecked("the output has a single class")
    if target.is_floating_point():
        frequency = target.mean(tuple(d for d in range(target.dim()) if d != axis))
    else:
        valid_targets = target[(target >= 0) & (target < classes)]
        frequency = torch.bincount(valid_targets.flatten(), minlength=classes) / max(valid_targets.numel(), 1)
    shape = [classes if d == axis else 1 for d in range(logits.dim())]
    uniform = torch.full(shape, -math.log(classes), dtype=logits.dtype, device=logits.device)
    prior = frequency.clamp_min(1e-12).log().to(logits).reshape(shape)
    return _validate_expected_loss(ExpectedLoss(compute_constant_loss(uniform), compute_constant_loss(prior), classes))


def _get_expected_for_probabilities(
    logits: Tensor, target: Tensor, compute_constant_loss: Callable[[Tensor], float], kind: LossKind
) -> ExpectedLoss:
    """Evaluate a probability of one half, and the share of positives of each output."""
    positive_share = target.float().mean(0, keepdim=True).clamp(1e-6, 1 - 1e-6).to(logits)
    half = torch.full_like(positive_share, 0.5)
    if kind == "bce":
        return _validate_expected_loss(
            ExpectedLoss(compute_constant_loss(half), compute_constant_loss(positive_share), 2)
        )
    return _validate_expected_loss(
        ExpectedLoss(compute_constant_loss(half.logit()), compute_constant_loss(positive_share.logit()), 2)
    )


def _is_squared(target: Tensor, compute_constant_loss: Callable[[Tensor], float]) -> bool:
    """Return whether typical initial errors count squared; Huber losses do so up to a bound."""
    error = 0.5 * float(target.float().square().mean().sqrt())
    try:
        loss_at_error, loss_at_double_error = (
            compute_constant_loss(target + error),
            compute_constant_loss(target + 2 * error),
        )
    except NotChecked:
        return False
    return loss_at_error > 0 and loss_at_double_error / loss_at_error > 2**1.5


def _get_expected_for_values(
    target: Tensor, compute_constant_loss: Callable[[Tensor], float], squared: bool
) -> ExpectedLoss:
    """Evaluate the mean of the targets as the prediction for every sample."""
    mean = target.float().mean(0, keepdim=True)
    constant_loss = compute_constant_loss(mean)
    std = float(target.float().std()) if target.numel() > 1 else 0.0
    return _validate_expected_loss(ExpectedLoss(constant_loss, constant_loss, 0, float(mean.mean()), std, squared))


def _validate_expected_loss(expected: ExpectedLoss) -> ExpectedLoss:
    """Return the expected loss; raise NotChecked if it is not a positive finite number."""
    if not math.isfinite(expected.uniform) or expected.uniform <= 0:
        raise NotChecked(f"the loss of a constant prediction is {expected.uniform:.3g}")
    return expected


@slow_measurement
def ideal_loss(setup: Setup, first_pass: ForwardPass, output: Any, loss_kind: LossKind, loss: Tensor) -> IdealLoss:
    """The losses of a correct and of a wrong prediction for the first batch."""
    target, output_scores = first_pass.batch.target, score_tensor(output)
    if setup.loss_fn is None or not isinstance(output_scores, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("needs a callable loss, a tensor output and a tensor target")
    if part_loss := get_ideal_loss_of_part(setup, first_pass, output, target):
        return part_loss
    if not isinstance(output, Tensor) and losses.get_loss_kind(setup.loss_fn) == "other":
        raise NotChecked(f"a custom loss takes the whole {type(output).__name__} that the model returns")

    def compute_loss(prediction: Tensor) -> float:
        return compute_loss_value(setup, prediction.to(output_scores), first_pass.batch)

    if compute_loss(output_scores) != compute_loss(output_scores):
        raise NotChecked("the loss of one output differs between two calls: it draws random numbers or keeps a state")
    output_pairs = _get_ideal_outputs(setup, first_pass, output_scores, target, loss_kind)
    pair_losses = [IdealLoss(compute_loss(right), compute_loss(wrong)) for right, wrong in output_pairs]
    if len({pair_loss.right > pair_loss.wrong for pair_loss in pair_losses}) > 1:
        raise NotChecked("the loss of a perfect prediction depends on whether outputs are logits or probabilities")
    _check_targets_are_used(setup, first_pass, output_pairs[0][0].to(output_scores), target)
    _check_classes_are_read(compute_loss, output_scores, target)
    _check_consistent_direction(compute_loss, output_pairs[0])
    _check_same_element_is_compared(setup, first_pass, output_pairs[0][0].to(output_scores), target)
    return pair_losses[0]


def _check_targets_are_used(setup: Setup, first_pass: ForwardPass, prediction: Tensor, target: Tensor) -> None:
    """Raise NotChecked if swapping the targets of samples does not change the loss."""
    swapped = target.roll(1, 0) if target.dim() else target
    other_batch = replace(first_pass.batch, targets=(swapped,))
    is_unchanged = compute_loss_value(setup, prediction, other_batch) == compute_loss_value(
        setup, prediction, first_pass.batch
    )
    if is_unchanged and not torch.equal(swapped, target):
        raise NotChecked("the loss does not depend on the targets")


def _check_classes_are_read(compute_loss: Callable[[Tensor], float], output: Tensor, target: Tensor) -> None:
    """Raise NotChecked if the loss ignores the output of a class that occurs: its classes are other columns."""
    axes = get_extra_axes(output, target)
    if not axes or target.is_floating_point() or output.select(axes[0], 0).shape != target.shape:
        return
    uniform = torch.full_like(output, 0.5)
    base = compute_loss(uniform)
    for number in sorted(set(target.flatten().tolist()))[:_MAX_TESTED_SAMPLES]:
        raised = uniform.clone()
        if 0 <= number < output.shape[axes[0]]:
            raised.select(axes[0], number)[target == number] = 0.75
            if compute_loss(raised) == base:
                raise NotChecked(f"the loss does not read output {number} for samples of class {number}")


def _check_consistent_direction(compute_loss: Callable[[Tensor], float], pair: _OutputPair) -> None:
    """Raise NotChecked if a wrong prediction raises the loss of some samples and lowers that of others.

    Rewards of both signs do so.
    """
    right, wrong = pair
    best, directions = compute_loss(right), set()
    stride = len(right) // _MAX_TESTED_SAMPLES | 1  # an odd stride reaches both kinds of alternating samples
    for row in range(0, len(right), stride):
        mixed = right.clone()
        mixed[row] = wrong[row]
        value = compute_loss(mixed)
        directions |= {value > best} if value != best else set()
    if len(directions) > 1:
        raise NotChecked("a wrong prediction raises the loss for some samples and lowers it for others")


def _check_same_element_is_compared(setup: Setup, first_pass: ForwardPass, perfect: Tensor, target: Tensor) -> None:
    """Raise NotChecked unless the loss compares each output with the target of the same element.

    Exchanging the values of an output and of its target together has an effect beyond those of the two exchanges
    alone, and of the same sign for all elements that count. Losses with other targets, such as later tokens or the
    other samples of the batch, add up two separate effects.
    """
    flat_target = target.flatten()
    others = (flat_target != flat_target[0]).nonzero().flatten().tolist()
    if not others:
        raise NotChecked("all targets of the first batch are equal, so no wrong answer is known")
    axes = get_extra_axes(perfect, target)
    rows = perfect.movedim(axes[0], -1) if axes else perfect
    class_shape = rows.shape[target.dim() :]
    flat_rows = rows.reshape(len(flat_target), *class_shape)

    def compute_exchanged_loss(first: int, second: int, output: bool, targets: bool) -> float:
        new_rows, new_target = flat_rows.clone(), flat_target.clone()
        if output:
            new_rows[first] = flat_rows[second]
        if targets:
            new_target[first] = flat_target[second]
        new_output = new_rows.reshape(rows.shape)
        batch = replace(first_pass.batch, targets=(new_target.reshape(target.shape),))
        return compute_loss_value(setup, new_output.movedim(-1, axes[0]) if axes else new_output, batch)

    signs = set()
    for first in range(0, len(flat_target), len(flat_target) // _MAX_EXCHANGED | 1):
        second = 0 if flat_target[first] != flat_target[0] else others[len(others) // 2]
        both, output, targets, none = (
            compute_exchanged_loss(first, second, *which)
            for which in ((True, True), (True, False), (False, True), (False, False))
        )
        size = max(map(abs, (both, output, targets, none)))
        interaction = both + none - output - targets
        signs.add(0 if abs(interaction) <= _MIN_INTERACTION * size else 1 if interaction > 0 else -1)
    if len(signs - {0}) != 1:  # zero for elements that a mask or a weight leaves out
        raise NotChecked("the loss does not compare each output with the target of the same element")


def _get_ideal_outputs(
    setup: Setup, first_pass: ForwardPass, output: Tensor, target: Tensor, kind: LossKind
) -> list[_OutputPair]:
    """Return correct and wrong predictions, as logits and as probabilities if either is possible."""
    if kind in ("cross-entropy", "nll") and not target.is_floating_point():
        return [_get_ideal_class_outputs(output, target, class_axis(setup, first_pass, output, kind))]
    axes = get_extra_axes(output, target)
    if axes and axes[0] in get_softmax_axes(output, first_pass):
        return [_get_ideal_class_outputs(output, target, axes[0])]
    if output.shape != target.shape:
        raise NotChecked("the output does not have the shape of the target")
    target = target.float()
    if bool(((target == 0) | (target == 1)).all()):
        logits = (2 * target - 1) * _LOGIT_SCALE
        pairs_by_kind = {"bce-with-logits": [(logits, -logits)], "bce": [(logits.sigmoid(), (-logits).sigmoid())]}
        return pairs_by_kind.get(kind, [pair for pairs in pairs_by_kind.values() for pair in pairs])
    if output.dim() == 2 and target.shape[1] > 1 and _is_distribution(target):
        opposite = (1 - target) / (target.shape[1] - 1)
        return [
            (distribution.clamp_min(1e-6).log(), inverse.clamp_min(1e-6).log())
            for distribution, inverse in [(target, opposite)]
        ]
    std = target.std().clamp_min(1e-6) if target.numel() > 1 else torch.ones(())
    return [(target, target + std), (target, target - std)]


def _is_distribution(target: Tensor) -> bool:
    """Return whether each row of targets is a distribution over classes."""
    return bool((target >= 0).all()) and bool((target.sum(1) - 1).abs().lt(1e-3).all())


def _get_ideal_class_outputs(output: Tensor, target: Tensor, axis: int) -> _OutputPair:
    """Return log-probabilities, valid as logits too, that favor the correct class, and ones that exclude it."""
    classes = output.shape[axis]
    if classes < 2:
        raise NotChecked("the output has a single class")
    rows = F.one_hot(target.clamp(0, classes - 1), classes).movedim(-1, axis).float()
    return F.log_softmax(rows * _LOGIT_SCALE, dim=axis), F.log_softmax(-rows * _LOGIT_SCALE, dim=axis)


@measurement
def is_trained(graph: Graph) -> bool:
    """True if the errors of the first batch are well below those of a constant: ln C, or the target variance.

    Read from the tensors that torch's losses save in the graph, so that weights and scales of the total loss do not
    matter.
    """
    error_pairs = [pair for node in graph.nodes if (pair := _compute_mean_errors(node)) is not None]
    return bool(error_pairs) and all(error < _MAX_LOSS_RATIO * constant for error, constant in error_pairs)


def _compute_mean_errors(node: Node) -> tuple[float, float] | None:
    """Return the mean error of a loss node and that of a constant prediction; None for other nodes."""
    prediction, target = node.get_saved("self"), node.get_saved("target")
    if not isinstance(prediction, Tensor) or not isinstance(target, Tensor):
        return None
    prediction = prediction.detach().float()
    if node.name in ("NllLoss", "NllLoss2D") and prediction.dim() > 1:
        ignore_index = int(node.get_saved("ignore_index")) - (
            1 << 64 if int(node.get_saved("ignore_index")) > 1 << 62 else 0
        )
        return float(F.nll_loss(prediction, target, ignore_index=ignore_index)), math.log(prediction.shape[1])
    if node.name == "BinaryCrossEntropyWithLogits":
        return float(F.binary_cross_entropy_with_logits(prediction, target.float())), math.log(2)
    if node.name == "MseLoss" and target.numel() > 1:
        return float(F.mse_loss(prediction, target.float())), float(target.float().var())
    return None


@measurement
def kl_divergences(setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor) -> list[TorchCall]:
    """The KL divergence calls in the loss of the first batch; their first input must be log-probabilities."""
    if setup.loss_fn is None:
        return []
    recorded: list[TorchCall] = []
    detached = tree_map(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
    with torch.no_grad(), CallRecorder(ModuleStack(), recorded.append):
        setup.loss(detached, first_pass.batch)
    return [call for call in recorded if call.name == "kl_div" and call.inputs]


@slow_measurement
def baselines(errors: Errors) -> Baselines:
    """The performance of constant, linear and input-independent models on the evaluated rows."""
    return errors.baselines(seconds=_MAX_SECONDS)
