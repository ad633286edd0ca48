"""The call of a model where padding first changes values at real positions, and the one that should mask it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.setup import Batch
from nbdebug.tensors.pytree import tree_tensors

_TOLERANCE = 1e-4  # relative; sums over other widths are rounded differently


def find_width_call(answers: EvalOutputs, wide: Batch, narrow: Batch) -> TorchCall | None:
    """Return the call whose values depend on the columns that only ``wide`` has, or the mask that feeds it.

    The torch calls of two passes are compared in their order; None if these differ.
    """
    return _find_first_difference(answers, (wide, narrow), _common_values, ())


def find_content_call(
    answers: EvalOutputs, original: Batch, changed: Batch, real: Tensor, mask: Tensor | None
) -> TorchCall | None:
    """Return the call whose values at real positions depend on those at others, or the mask that feeds it.

    ``real`` tells which positions of a row are real; all rows of the batches are that row. ``mask`` has the values of
    an input that declares them.
    """
    width = len(real)

    def real_values(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        for axis in [axis for axis, size in enumerate(first.shape) if size == width]:
            index = real.nonzero().flatten().to(first.device)
            first, second = first.index_select(axis, index), second.index_select(axis, index)
        return first, second

    inputs = tree_tensors((original.args, original.kwargs))
    masks = [x for x in inputs if mask is not None and x.shape == mask.shape and torch.equal(x, mask)]
    return _find_first_difference(answers, (original, changed), real_values, masks)


def _find_first_difference(
    answers: EvalOutputs,
    batches: tuple[Batch, Batch],
    compared_values: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    masks: Collection[Tensor],
) -> TorchCall | None:
    """Return the first call of two passes with other values, or the mask that feeds it; None if the calls differ."""
    passes = [_record(answers, batch) for batch in batches]
    used = {id(tensor) for call in passes[0] for tensor in call.inputs}
    for index, (first, second) in enumerate(zip(*passes, strict=False)):
        pairs = list(zip(first.outputs, second.outputs, strict=False))
        if (first.name, first.line) != (second.name, second.line) or any(a.dim() != b.dim() for a, b in pairs):
            return None
        # A recurrent layer also returns a last state, which the model may not read.
        pairs = [pair for pair in pairs if id(pair[0]) in used] or pairs
        is_float = [pair for pair in pairs if pair[0].is_floating_point() and pair[1].is_floating_point()]
        if not all(_agree(*compared_values(*pair)) for pair in is_float):
            return _feeding_mask(passes[0][: index + 1], {id(mask) for mask in masks}) or first
    return None


def _record(answers: EvalOutputs, batch: Batch) -> list[TorchCall]:
    calls: list[TorchCall] = []
    with record_calls(answers.setup.eager_model, calls.append):
        answers.predict(batch)
    return calls


def _common_values(wide: Tensor, narrow: Tensor) -> tuple[Tensor, Tensor]:
    common = tuple(slice(min(sizes)) for sizes in zip(wide.shape, narrow.shape, strict=True))
    return wide[common], narrow[common]


def _agree(first: Tensor, second: Tensor) -> bool:
    """Check whether two tensors have the same values, up to rounding."""
    if first.shape != second.shape or not first.numel():
        return True
    scale = float(second.nan_to_num(posinf=0.0, neginf=0.0).abs().max())
    return bool(torch.isclose(first, second, _TOLERANCE, _TOLERANCE * scale, equal_nan=True).all())


def _feeding_mask(calls: list[TorchCall], masks: set[int]) -> TorchCall | None:
    """Return the call that combines a mask with the values of the last call, up to operations that keep their shape.

    Masks are some tensors, boolean ones, and what is made of them alone.
    """
    has_both: list[bool] = []
    for call in calls:
        masks |= {id(tensor) for tensor in (*call.inputs, *call.outputs) if tensor.dtype == torch.bool}
        is_mask = [id(tensor) in masks for tensor in call.inputs]
        has_both.append(any(is_mask) and any(x.is_floating_point() for x in call.inputs if id(x) not in masks))
        masks |= {id(tensor) for tensor in call.outputs if is_mask and all(is_mask)}
    *earlier, last = calls
    if has_both[-1]:
        return last
    feeding, shapes = {id(tensor) for tensor in last.inputs}, {tensor.shape for tensor in last.inputs}
    for call, combines in zip(reversed(earlier), reversed(has_both[:-1]), strict=True):
        if not feeding.isdisjoint(id(tensor) for tensor in call.outputs):
            if combines:
                return call
            feeding |= {id(tensor) for tensor in call.inputs if tensor.shape in shapes}
    return None
