"""Logits of a loss that are cosines times a constant, so that they lie in a small range."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.records import Record
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

PRODUCTS = {"matmul", "rmatmul", "tensordot", "mm", "bmm", "einsum", "linear", "cosine_similarity", "inner"}
_FACTORS = {"mul", "rmul", "multiply", "div", "truediv", "divide"}
_SUMS = {"sum", "sub", "rsub", "add", "radd"}
_SOFTMAXES = {"cross_entropy", "log_softmax", "softmax", "logsumexp"}
_TOLERANCE = 1e-3
_MASKED = -1e4  # values below are excluded from a softmax
_SHARPENING_FACTORS = tuple(2.0**power for power in range(7))


@dataclass(frozen=True)
class CosineLogits:
    """Cosines times ``scale``, of which a softmax over ``classes`` classes is taken; ``line`` scales or computes them.

    ``gap`` is the largest difference that all samples can have, on average, between the logit of their own class and
    the others: unit vectors are farthest apart at the corners of a simplex (Wang and Isola 2020, arXiv:2005.10242).
    ``sharpened_loss`` is the lowest mean cross-entropy of these logits times a factor of 1 to 64; None if the call does
    not take the indices of the right classes. ``has_loader_targets`` tells whether these are targets of the loader:
    in-batch negatives are not.
    """

    scale: float
    classes: int
    line: SourceLine | None
    sharpened_loss: float | None = None
    has_loader_targets: bool = False

    @property
    def gap(self) -> float:
        """The largest difference between the logit of the right class and the others."""
        return self.scale * self.classes / (self.classes - 1)

    @property
    def floor(self) -> float:
        """The cross-entropy at the largest difference."""
        return math.log1p((self.classes - 1) * math.exp(-self.gap))

    @property
    def chance(self) -> float:
        """The cross-entropy of equal logits."""
        return math.log(self.classes)


@measurement
def cosine_logits(setup: Setup, first_pass: ForwardPass, output: Any, record: Record) -> CosineLogits:
    """The logits of the loss, if they are products of vectors of length 1, times a factor that is not learned.

    They are compared with the losses of a run, so no pass is spent on them without a ``record``.
    """
    batch, calls = first_pass.batch, list[TorchCall]()
    with torch.no_grad(), in_mode(setup.eager_model, False):
        seed_all(0)
        with record_calls(setup.eager_model, calls.append):
            output = setup.predict(batch)
        loss_calls, _ = record_loss_calls(lambda: setup.raw_loss(output, batch))
    tracker = _CosineTracker()
    for call in calls:
        tracker.add(call)
    for call in loss_calls:
        if call.name in _SOFTMAXES and call.inputs and (logits := tracker.logits_of(call)):
            targets = _class_indices(call)
            if targets is None:
                return logits
            has_loader_targets = any(torch.equal(targets, tensor) for tensor in tree_tensors(batch.targets))
            return replace(
                logits, sharpened_loss=_sharpened_loss(call.inputs[0], targets), has_loader_targets=has_loader_targets
            )
        tracker.add(call)
    raise NotChecked("the logits of the loss are not cosines times a constant")


def _class_indices(call: TorchCall) -> Tensor | None:
    """Return the indices of the right classes that a call of the cross-entropy takes; None for other calls."""
    targets = call.kwargs.get("target", call.args[1] if len(call.args) > 1 else None)
    is_index = isinstance(targets, Tensor) and not targets.is_floating_point() and targets.dim() < call.inputs[0].dim()
    return targets if call.name == "cross_entropy" and is_index else None


def _sharpened_loss(logits: Tensor, targets: Tensor) -> float:
    """Return the lowest cross-entropy of logits times one factor: that of a head whose scale does not limit it."""
    return min(float(F.cross_entropy(logits.float() * factor, targets)) for factor in _SHARPENING_FACTORS)


@dataclass(frozen=True)
class _Cosines:
    """A tensor of cosines times a factor; ``is_unsummed`` if its products are to be summed over the last axis."""

    tensor: Tensor
    scale: float
    line: SourceLine | None
    is_unsummed: bool = False


class _CosineTracker:
    """Follows cosines through the calls of a forward pass and a loss."""

    def __init__(self) -> None:
        self.cosines: dict[int, _Cosines] = {}  # by identity of the tensors, which are kept alive

    def add(self, call: TorchCall) -> None:
        """Track the results of a call that computes, scales or rearranges cosines."""
        inputs = [tensor for tensor in call.inputs if tensor.is_floating_point()]
        tracked = [self.cosines[id(tensor)] for tensor in inputs if id(tensor) in self.cosines]
        for output in call.outputs:
            if (result := _follow(call, inputs, tracked, output)) and id(output) not in self.cosines:
                self.cosines[id(output)] = result

    def logits_of(self, call: TorchCall) -> CosineLogits | None:
        """Return the cosines of which a call takes the softmax; None if it takes that of other values."""
        source = self.cosines.get(id(call.inputs[0]))
        if source is None or source.is_unsummed or source.tensor.dim() < 2:
            return None
        axis = 1 if call.name == "cross_entropy" else call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else -1)
        if not isinstance(axis, int):
            return None
        classes = round(float((source.tensor > _MASKED).sum(axis).float().mean()))
        return CosineLogits(source.scale, classes, source.line) if classes > 1 else None


def _follow(call: TorchCall, inputs: list[Tensor], tracked: list[_Cosines], output: Tensor) -> _Cosines | None:
    """Return what a call makes of cosines; None if the result is none."""
    if not output.is_floating_point() or not inputs:
        return None
    if not tracked:
        return _product(call, inputs, output)
    first = tracked[0]
    if call.name in _FACTORS:
        is_constant = len(tracked) == 1 and all(t is first.tensor or _is_constant(t) for t in inputs)
        factor = _ratio(output, first.tensor) if is_constant else 0.0
        return _Cosines(output, factor * first.scale, call.line or first.line, first.is_unsummed) if factor else None
    if len(tracked) < len(inputs) or len({cosines.scale for cosines in tracked}) > 1:
        return None
    if call.name in _SUMS:
        is_sum = call.name == "sum" and first.is_unsummed and _largest(output) <= (1 + _TOLERANCE) * abs(first.scale)
        is_shift = call.name != "sum" and len(tracked) > 1 and tracked[1].tensor.numel() < first.tensor.numel()
        return _Cosines(output, first.scale, first.line) if is_sum or is_shift else None
    is_rearranged = _largest(output) <= (1 + _TOLERANCE) * max(_largest(c.tensor) for c in tracked)
    return _Cosines(output, first.scale, first.line, first.is_unsummed) if is_rearranged else None


def _product(call: TorchCall, inputs: list[Tensor], output: Tensor) -> _Cosines | None:
    """Return the cosines that a product of two tensors of unit vectors makes."""
    if call.name == "cosine_similarity":
        return _Cosines(output, 1.0, call.line)
    are_units = len(inputs) == 2 and all(map(_holds_unit_vectors, inputs))
    if are_units and call.name in PRODUCTS and _largest(output) <= 1 + _TOLERANCE:
        return _Cosines(output, 1.0, call.line)
    is_unsummed = are_units and call.name == "mul" and inputs[0].shape[-1] == inputs[1].shape[-1] > 1
    return _Cosines(output, 1.0, call.line, True) if is_unsummed else None


def _holds_unit_vectors(tensor: Tensor) -> bool:
    """Return whether the values of a tensor have a sum of squares of 1 along one of its axes."""
    squares = tensor.detach().float().square()
    axes = [axis for axis in range(tensor.dim()) if tensor.shape[axis] > 1 and tensor.numel() > tensor.shape[axis]]
    return any(bool(((squares.sum(axis) - 1).abs() < _TOLERANCE).all()) for axis in axes)


def _is_constant(tensor: Tensor) -> bool:
    """Return whether a tensor is one number that is not learned."""
    return tensor.numel() == 1 and not tensor.requires_grad


def _ratio(output: Tensor, source: Tensor) -> float:
    size = _largest(source)
    return _largest(output) / size if size else 0.0


def _largest(values: Tensor) -> float:
    """Return the largest magnitude of values that are not masked out."""
    kept = values.detach().float()
    kept = kept[(kept > _MASKED) & kept.isfinite()]
    return float(kept.abs().max()) if kept.numel() else 0.0
