"""Shares of classes that sum to one over another axis than that of the classes, in the output or the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup.losses import score_tensor

_TOLERANCE = 1e-3  # a small number is often added before the logarithm
_MAX_VALUES = 2**22
_MIN_AGREEMENT = 0.9


@dataclass(frozen=True)
class ClassShares:
    """Values for each class and position that sum to one over ``summed_axes``; the classes are on ``class_axis``.

    ``call`` is the one that makes them; None if they are the output, which is made at ``where``.
    """

    shape: tuple[int, ...]
    class_axis: int
    summed_axes: tuple[int, ...]
    where: Location
    call: TorchCall | None = None


@measurement
def class_shares(first_pass: ForwardPass, output: Any, loss_calls: list[TorchCall] | NotChecked) -> ClassShares | None:
    """The first shares that the loss rewards at the class of each target, and that sum to one over positions instead.

    Each of them depends on the scores of its own class alone, so that the classes do not compete.
    """
    scores, calls = score_tensor(output), loss_calls if isinstance(loss_calls, list) else []
    if not isinstance(scores, Tensor) or scores.dim() < 3 or scores.numel() > _MAX_VALUES:
        return None
    classes = _find_classes(scores, first_pass.batch.target)
    source = next((t for call in calls for t in call.inputs if _is_source(t, scores)), None)
    losses = [t for call in calls for t in call.outputs if t.requires_grad and t.numel() == 1]
    if classes is None or source is None or not losses:
        return None
    axis, targets = classes
    made = ((call, tensor) for call in calls for tensor in call.outputs)
    for call, values in [(None, source), *made]:
        if not values.requires_grad or not values.is_floating_point() or values.numel() != scores.numel():
            continue
        for class_axis, summed_axes in _find_crossed_sums(values, scores.shape[axis]):
            is_separate = values is source or _is_separate(values, class_axis, source, axis)
            if is_separate and _rewards_targets(losses[-1], values, class_axis, targets):
                root = first_pass.trace.get_graph(scores).root if call is None else None
                where = call.where if call else root.where if root else Location()
                return ClassShares(tuple(values.shape), class_axis, summed_axes, where, call)
    return None


def _is_source(tensor: Tensor, scores: Tensor) -> bool:
    """Return whether a tensor is the output of the model, or the leaf that the loss received in its place."""
    return tensor is scores or (tensor.is_leaf and tensor.requires_grad and tensor.shape == scores.shape)


def _find_classes(scores: Tensor, target: Any) -> tuple[int, Tensor] | None:
    """Return the class axis of the scores and the class of each position; None if the targets do not tell it."""
    if not isinstance(target, Tensor) or target.is_complex() or not target.numel():
        return None
    target = target.detach().to(scores.device)
    if target.shape == scores.shape:
        axes = [a for a in range(scores.dim()) if bool((target.float().sum(a) - 1).abs().lt(_TOLERANCE).all())]
        return (axes[0], target.argmax(axes[0])) if len(axes) == 1 and scores.shape[axes[0]] > 1 else None
    shape = tuple(scores.shape)
    axes = [
        axis
        for axis in range(scores.dim())
        if tuple(target.shape) in ((*shape[:axis], *shape[axis + 1 :]), (*shape[:axis], 1, *shape[axis + 1 :]))
    ]
    is_whole = not target.is_floating_point() or bool((target == target.round()).all())
    if len(axes) != 1 or not is_whole:
        return None
    return axes[0], target.long().reshape(*shape[: axes[0]], *shape[axes[0] + 1 :])


def _find_crossed_sums(values: Tensor, class_count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield a possible class axis, and the other axes over which values or their exponentials sum to one."""
    numbers = values.detach().float()
    if not bool((numbers >= 0).all()):
        numbers = numbers.exp()
    if not bool((numbers <= 1 + _TOLERANCE).all()):
        return
    for class_axis in [axis for axis, size in enumerate(numbers.shape) if size == class_count]:
        others = [axis for axis, size in enumerate(numbers.shape) if axis != class_axis and size > 1]
        summed = [axes for count in range(1, len(others) + 1) for axes in combinations(others, count)]
        crossed = next((axes for axes in summed if _sums_to_one(numbers, axes)), None)
        if crossed is not None and not _sums_to_one(numbers, (class_axis,)):
            yield class_axis, crossed


def _sums_to_one(numbers: Tensor, axes: tuple[int, ...]) -> bool:
    return bool((numbers.sum(axes) - 1).abs().lt(_TOLERANCE).all())


def _is_separate(values: Tensor, class_axis: int, source: Tensor, source_axis: int) -> bool:
    """Return whether the values of a class depend on the scores of this class alone."""
    weights = torch.rand(values.shape[:class_axis] + values.shape[class_axis + 1 :], generator=_generator())
    selected = values.select(class_axis, 0)
    gradient = _gradient((selected * weights.to(selected)).sum(), source)
    if gradient is None:
        return False
    by_class = gradient.movedim(source_axis, 0).flatten(1).ne(0).any(1)
    return bool(by_class[0]) and not bool(by_class[1:].any())


def _rewards_targets(loss: Tensor, values: Tensor, class_axis: int, targets: Tensor) -> bool:
    """Return whether the loss falls most with the value of the class of each target, for nearly all of each class."""
    gradient = _gradient(loss, values)
    if gradient is None:
        return False
    by_position = gradient.movedim(class_axis, -1)
    orders = permutations(range(by_position.dim() - 1))
    return any(_agrees(by_position.permute(*order, -1).flatten(0, -2), targets.flatten()) for order in orders)


def _agrees(gradient: Tensor, targets: Tensor) -> bool:
    is_used = (targets >= 0) & (targets < gradient.shape[1]) & gradient.ne(0).any(1)
    used, lowest = targets[is_used], gradient[is_used].min(1)
    is_rewarded = ((lowest.indices == used) & (lowest.values < 0)).float()
    counts = torch.bincount(used, minlength=gradient.shape[1])
    shares = torch.bincount(used, is_rewarded, minlength=gradient.shape[1])[counts > 0] / counts[counts > 0]
    return len(shares) > 1 and float(shares.mean()) >= _MIN_AGREEMENT


def _gradient(value: Tensor, source: Tensor) -> Tensor | None:
    """Return a gradient; None if there is none, or its graph is freed. The graph stays."""
    try:
        return torch.autograd.grad(value.sum(), source, retain_graph=True, allow_unused=True)[0]
    except RuntimeError:
        return None


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
