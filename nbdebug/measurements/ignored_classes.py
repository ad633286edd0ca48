"""A class of positions that the loss ignores although the inputs predict it as they do a class that is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.dense_labels import draw_positions, neighborhoods, position_classes
from nbdebug.measurements.forward_pass import get_extra_axes
from nbdebug.measurements.loss_gradient import LossCall, compute_output_gradients
from nbdebug.measurements.registry import slow_measurement

_MIN_CLASSES = 3  # of two, ``ignored_target`` reports the ignored one
_MIN_SHARE, _MIN_LEARNED = 0.1, 0.99
_MAX_SAMPLES, _POSITIONS, _MIN_ROWS = 150, 4, 100
_MAX_EQUAL_INPUTS, _MIN_INSIDE = 0.5, 0.25
_MIN_ACCURACY, _RIDGE_STRENGTH = 0.85, 0.1


@dataclass(frozen=True)
class PredictableClass:
    """A class that the loss ignores, with ``share`` of the ``positions`` of a batch, and how well inputs predict it.

    ``accuracy`` is the mean of the shares of ``rows`` with and without the class that a learner of other samples
    recognizes; by chance, it is a half.
    """

    label: int
    share: float
    positions: int
    accuracy: float
    rows: int


@slow_measurement
def predictable_class(
    output: Any, loss: Tensor, loss_call: LossCall, tables: dict[str, SplitTable]
) -> PredictableClass | None:
    """The class of the output without a gradient at any of its positions, which the values around these predict.

    The label of padding has equal inputs, that of borders between objects has few positions inside it, and that of
    positions without an annotation is not predicted. Tokens are no inputs here: a loss may leave out parts of words.
    """
    target, table = _class_target(output, loss_call.targets), tables.get("train")
    if target is None or table is None or len(table.targets) != 1:
        raise NotChecked("needs an output and a target with a class at each position")
    (gradient,) = compute_output_gradients(loss, [output])
    label = _ignored_label(output, gradient, target) if gradient is not None else None
    classes = position_classes((table.targets[0][:_MAX_SAMPLES],), None) if label is not None else None
    if label is None or classes is None or classes.shape[1:] != target.shape[1:]:
        return None
    inputs = tuple(
        part[:_MAX_SAMPLES] for part in table.inputs if part.is_floating_point() or part.dtype == torch.uint8
    )
    drawn = _draw_rows(tuple(part[:_MAX_SAMPLES] for part in inputs), classes, label)
    if drawn is None or not _has_inside(classes == label):
        return None
    features, has_label, samples = drawn
    if _equal_share(features[has_label]) > _MAX_EQUAL_INPUTS:
        return None
    accuracy = _measure_accuracy(features, has_label, samples % 2 == 0)
    share = float((target == label).float().mean())
    is_predicted = accuracy >= _MIN_ACCURACY
    return PredictableClass(label, share, target.numel(), accuracy, len(features)) if is_predicted else None


def _class_target(output: Any, targets: tuple[Any, ...]) -> Tensor | None:
    """Return the only target, if it has a class of the output at each position; else None."""
    target = targets[0] if len(targets) == 1 else None
    is_dense = isinstance(target, Tensor) and target.dim() > 1 and not target.is_floating_point() and target.numel() > 0
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or not is_dense:
        return None
    return target if len(get_extra_axes(output, target)) == 1 else None


def _ignored_label(output: Tensor, gradient: Tensor, target: Tensor) -> int | None:
    """Return the class of the output without a gradient at its positions; None unless the others have one there."""
    axis = get_extra_axes(output, target)[0]
    has_gradient = (gradient != 0).any(axis).to(target.device)
    labels = target[(target >= 0) & (target < output.shape[axis])].unique().tolist()  # type: ignore[no-untyped-call]
    for label in labels if len(labels) >= _MIN_CLASSES else ():
        rows = target == label
        is_learned = has_gradient[(target >= 0) & ~rows].float().mean() >= _MIN_LEARNED
        if not bool(has_gradient[rows].any()) and is_learned:
            return int(label) if float(rows.float().mean()) >= _MIN_SHARE else None
    return None


def _has_inside(is_label: Tensor) -> bool:
    """Check whether a quarter of the positions of a label in pictures are surrounded by it, unlike those of borders."""
    if is_label.dim() != 3:
        return True
    inside = -F.max_pool2d(-is_label.float()[:, None], 3, 1, 1)
    return float(inside.sum()) >= _MIN_INSIDE * float(is_label.sum())


def _draw_rows(inputs: tuple[Tensor, ...], classes: Tensor, label: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the values around positions of each sample, whether these have the label, and their samples."""
    has_label = (classes == label).flatten(1)
    drawn = [draw_positions(torch.where(part, 0, -1), _POSITIONS) for part in (has_label, ~has_label)]
    columns = torch.cat(drawn, 1).unbind(1)  # one position of each sample at a time, since pictures may be large
    around = [neighborhoods(inputs, classes.shape[1:], column) for column in columns]
    known = [values for values in around if values is not None]
    features = torch.cat(known) if known else torch.empty(0, 1)
    samples = torch.arange(len(classes))
    labels = torch.cat([has_label[samples, column] for column in columns])
    is_usable = len(features) >= _MIN_ROWS and bool(features.isfinite().all())
    return (features, labels, samples.repeat(len(columns))) if is_usable else None


def _equal_share(features: Tensor) -> float:
    """Return the share of the rows that are equal to the most frequent one."""
    counts = features.unique(dim=0, return_counts=True)[1]  # type: ignore[no-untyped-call]
    return float(counts.max() / counts.sum()) if len(counts) else 1.0


def _measure_accuracy(features: Tensor, has_label: Tensor, is_own: Tensor) -> float:
    """Return the balanced accuracy of a kernel ridge regression of each half of the samples on the other half."""
    features = (features - features.mean(0)) / features.std(0).clamp_min(1e-6)
    is_right = torch.zeros_like(has_label)
    for own in (is_own, ~is_own):
        known, answers = features[own], has_label[own].float()
        balance = float(answers.mean())
        squared = torch.cdist(known, known).square()
        width = squared.median().clamp_min(1e-6)
        kernel = torch.exp(-squared / width) + _RIDGE_STRENGTH * torch.eye(len(known))
        weights = torch.linalg.solve(kernel, answers - balance)
        scores = torch.exp(-torch.cdist(features[~own], known).square() / width) @ weights
        is_right[~own] = (scores > 0.5 - balance) == has_label[~own]
    return float((is_right[has_label].float().mean() + is_right[~has_label].float().mean()) / 2)
