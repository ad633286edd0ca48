"""The masks that a model makes of padding: where they meet values, and where they get the shape of these values."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import SELECTION_CALLS, TorchCall

_TOLERANCE = 1e-3


def masks_padding(calls: list[TorchCall], padded: Tensor) -> bool:
    """Return whether a model makes a mask of padding, or of real positions, and combines it with values."""
    masks, width = set[int](), padded.shape[1]
    for call in calls:
        masks |= {id(tensor) for tensor in call.outputs if _marks(tensor, padded)}
        is_mask = [id(tensor) in masks for tensor in call.inputs]
        has_position_mask = any(is_own and width in x.shape[1:] for x, is_own in zip(call.inputs, is_mask, strict=True))
        if has_position_mask and any(x.is_floating_point() for x in call.inputs if id(x) not in masks):
            return True
        masks |= {id(tensor) for tensor in call.outputs if is_mask and all(is_mask)}
    return False


def _marks(mask: Tensor, padded: Tensor) -> bool:
    """Return whether a tensor is true exactly at padding, or exactly elsewhere."""
    is_mask = mask.dtype == torch.bool and mask.shape == padded.shape
    return is_mask and torch.equal(mask ^ mask[0, 0], padded ^ padded[0, 0])


def find_mask_call(calls: list[TorchCall], padded: Tensor, declared: Collection[Tensor]) -> TorchCall | None:
    """Return the call that combines a mask with the values of the last call, up to operations that keep their shape.

    If the mask does not vary along the axis that the last call sums over, it hides nothing of what is summed: return
    the call that gave the mask its shape. Masks are ``declared`` tensors, boolean ones, those with one value at padding
    and another one elsewhere, and what is made of them alone.
    """
    masks = _find_masks(calls, padded, declared)
    combining = _find_combining_call(calls, masks)
    if combining is None:
        return None
    axis = _find_summed_axis(calls[-1])
    own = [tensor for tensor in combining.inputs if id(tensor) in masks]
    if axis is None or any(_varies_along(mask, axis) for mask in own):
        return combining
    return next((call for mask in own if (call := _find_shape_call(calls, mask, masks))), combining)


def reshapes_mask(call: TorchCall) -> bool:
    """Return whether a call gives a mask another shape: a tensor of two values, and nothing else."""
    tensors = (*call.inputs, *call.outputs)
    return len({t.shape for t in tensors}) > 1 and all(len(tensor.unique()) <= 2 for tensor in tensors)  # type: ignore[no-untyped-call]


def _find_masks(calls: Sequence[TorchCall], padded: Tensor, declared: Collection[Tensor]) -> set[int]:
    masks = {id(tensor) for tensor in declared}
    for call in calls:
        tensors = (*call.inputs, *call.outputs)
        masks |= {id(t) for t in tensors if t.dtype == torch.bool or _has_two_values(t, padded)}
        if call.inputs and all(id(tensor) in masks for tensor in call.inputs):
            masks |= {id(tensor) for tensor in call.outputs}
    return masks


def _has_two_values(tensor: Tensor, padded: Tensor) -> bool:
    """Return whether a tensor has one value at all real positions, and another one at all padded ones."""
    if tensor.numel() != padded.numel():
        return False
    values = tensor.detach().reshape(padded.shape)
    real, other = values[~padded], values[padded]
    return bool((real == real[0]).all() and (other == other[0]).all() and real[0] != other[0])


def _find_combining_call(calls: list[TorchCall], masks: set[int]) -> TorchCall | None:
    """Return the call that combines a mask with the values of the last call."""
    *earlier, last = calls
    if _combines(last, masks):
        return last
    feeding, shapes = {id(tensor) for tensor in last.inputs}, {tensor.shape for tensor in last.inputs}
    for call in reversed(earlier):
        if not feeding.isdisjoint(id(tensor) for tensor in call.outputs):
            if _combines(call, masks):
                return call
            feeding |= {id(tensor) for tensor in call.inputs if tensor.shape in shapes}
    return None


def _combines(call: TorchCall, masks: set[int]) -> bool:
    """Return whether a call combines a mask with values; row numbers that are made of one, as lengths are, select."""
    is_mask = [id(tensor) in masks for tensor in call.inputs]
    if call.name in SELECTION_CALLS and not any(t.dtype == torch.bool for t in call.inputs):
        return False
    return any(is_mask) and any(x.is_floating_point() for x in call.inputs if id(x) not in masks)


def _find_summed_axis(call: TorchCall) -> int | None:
    """Return the axis, counted from the last, that a softmax or a reduction sums over; None for any other call.

    The mask of torch's attention has the keys on its last axis.
    """
    if call.name == "scaled_dot_product_attention":
        return -1
    if not call.inputs:
        return None
    values, result = call.inputs[0].detach(), call.outputs[0].detach()
    if not values.is_floating_point() or not values.dim():
        return None
    axes = range(values.dim())
    if result.shape == values.shape:
        shares = result.float() if bool((result >= 0).all()) else result.float().exp()
        axes_of_one = [axis for axis in axes if bool((shares.sum(axis) - 1).abs().lt(_TOLERANCE).all())]
        return axes_of_one[0] - values.dim() if len(axes_of_one) == 1 else None
    kept = [axis for axis in axes if _reduced_shape(values, axis, result.dim()) == result.shape]
    summed = [a for a in kept if any(_is_close(result, reduced) for reduced in (values.sum(a), values.mean(a)))]
    candidates = summed or kept
    return candidates[0] - values.dim() if len(candidates) == 1 else None


def _reduced_shape(values: Tensor, axis: int, dimensions: int) -> tuple[int, ...]:
    kept = (1,) if dimensions == values.dim() and values.shape[axis] != 1 else ()
    return (*values.shape[:axis], *kept, *values.shape[axis + 1 :])


def _is_close(result: Tensor, reduced: Tensor) -> bool:
    return torch.allclose(result.reshape(reduced.shape), reduced, _TOLERANCE, _TOLERANCE)


def _varies_along(mask: Tensor, axis: int) -> bool:
    """Return whether a mask has different values along an axis of the values that it is broadcast to."""
    return mask.dim() >= -axis and bool((mask != mask.narrow(axis, 0, 1)).any())


def _find_shape_call(calls: Sequence[TorchCall], mask: Tensor, masks: set[int]) -> TorchCall | None:
    """Return the last call that changed the shape of a mask; None if it has that of an input of the model."""
    makers = {id(tensor): call for call in calls for tensor in call.outputs}
    while (call := makers.get(id(mask))) is not None:
        source = next((t for t in call.inputs if id(t) in masks and t is not mask), None)
        if source is None or source.shape != mask.shape:
            return call if source is not None else None
        mask = source
    return None
