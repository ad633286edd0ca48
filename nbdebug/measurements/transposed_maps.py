"""Maps of outputs that answer a change of the input at row j and column i where it was at row i and column j."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.measurements.perturbation import EvalOutputs, zeros_filled
from nbdebug.measurements.registry import slow_measurement

_MIN_SIDE, _MAX_VALUES = 8, 4_000_000
# Places by their share of the side. None lies on a diagonal, so that no mirror or rotation maps one to its transpose.
_PLACES = ((0.2, 0.55), (0.55, 0.2), (0.3, 0.85), (0.85, 0.3))
_MIN_RATIO, _MIN_PARTIAL_RATIO, _MAX_OWN_RATIO = 2.0, 3.0, 1.0
_MIN_SHARE, _MIN_CORRELATION = 0.2, 0.1
_TRANSPOSES = frozenset({"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "T", "mT", "einsum"})


@dataclass(frozen=True)
class TransposedMap:
    """The response of a square output at exchanged rows and columns, relative to that at all other places.

    ``exchanged`` is the lowest ratio at (j, i) for patches of the input around (i, j); ``own`` is the highest ratio at
    (i, j), and ``is_partial`` is true if both answer. ``call`` is the only call that exchanges the axes of a map.
    """

    side: int
    patches: int
    exchanged: float
    own: float
    is_partial: bool
    call: TorchCall | None


@slow_measurement
def transposed_map(eval_outputs: EvalOutputs) -> TransposedMap | None:
    """The output map in which rows and columns are exchanged; None for others, and for inputs or maps with symmetry.

    Noise is added to patches of the input of the first batch, in eval mode.
    """
    square = _find_image(eval_outputs)
    output = eval_outputs.outputs[0] if eval_outputs.outputs else None
    axis = _square_axis(output) if output is not None else None
    if square is None or output is None or axis is None or output.numel() > _MAX_VALUES:
        return None
    image, image_axis = square
    if _is_pair_map(image, image_axis) or _matches_exchanged_target(eval_outputs, image, image_axis):
        return None
    with zeros_filled(eval_outputs) as answers:
        ratios = [_ratios(answers, image, image_axis, axis, place) for place in _PLACES]
        exchanged, own = min(ratio for ratio, _ in ratios), max(ratio for _, ratio in ratios)
        if exchanged < _MIN_RATIO:
            return None
        calls = answers.recorded_calls(answers.batch)
    is_partial = own > _MAX_OWN_RATIO
    is_weak = exchanged < max(_MIN_PARTIAL_RATIO, _MIN_SHARE * own)
    if is_partial and (is_weak or any(_has_symmetric_map(call) for call in calls)):
        return None
    lines = {call.line: call for call in calls if _exchanges_axes(call)}
    call = next(iter(lines.values())) if len(lines) == 1 else None
    return TransposedMap(output.shape[axis], len(_PLACES), exchanged, own, is_partial, call)


def _find_image(answers: EvalOutputs) -> tuple[Tensor, int] | None:
    """Return the only real-valued input with square maps, and the first of the two axes of these."""
    images = [
        (tensor, axis)
        for tensor in answers.inputs.values()
        if tensor.is_floating_point() and (axis := _square_axis(tensor)) is not None
    ]
    return images[0] if len(images) == 1 else None


def _square_axis(tensor: Tensor) -> int | None:
    """Return the first of two neighboring axes of one length behind the batch axis; None if there are not just two."""
    if tensor.dim() not in (3, 4):
        return None
    axes = [a for a in range(1, tensor.dim() - 1) if tensor.shape[a] == tensor.shape[a + 1] >= _MIN_SIDE]
    return axes[0] if len(axes) == 1 else None


def _maps(tensor: Tensor, axis: int) -> Tensor:
    """Return square maps (batch × others × side × side)."""
    maps = tensor.detach().float().movedim((axis, axis + 1), (-2, -1))
    return maps.unsqueeze(1) if maps.dim() == 3 else maps


def _is_pair_map(image: Tensor, axis: int) -> bool:
    """Return whether the maps are of pairs of the same items: symmetric ones, or ones with a constant diagonal."""
    maps = _maps(image, axis)
    diagonal = maps.diagonal(dim1=-2, dim2=-1)
    return _is_symmetric(maps) or bool((diagonal == diagonal[..., :1]).all())


def _is_symmetric(maps: Tensor) -> bool:
    return bool(torch.isclose(maps, maps.mT, rtol=1e-3, atol=1e-4 * float(maps.abs().max())).all())


def _matches_exchanged_target(answers: EvalOutputs, image: Tensor, axis: int) -> bool:
    """Return whether the targets are maps that agree with the input better if their rows and columns are exchanged."""
    target = answers.batch.target
    target_axis = _square_axis(target) if isinstance(target, Tensor) else None
    if not isinstance(target, Tensor) or target_axis is None or len(target) != len(image):
        return False
    maps, targets = _maps(image, axis).mean(1), _maps(target, target_axis).mean(1).to(image.device)
    if maps.shape != targets.shape:
        return False
    straight, exchanged = (_correlation(maps, values) for values in (targets, targets.mT))
    return exchanged > max(_MIN_CORRELATION, straight)


def _correlation(first: Tensor, second: Tensor) -> float:
    pair = torch.stack([first.flatten(), second.flatten()])
    return abs(float(torch.corrcoef(pair)[0, 1].nan_to_num()))


def _ratios(
    answers: EvalOutputs, image: Tensor, image_axis: int, axis: int, place: tuple[float, float]
) -> tuple[float, float]:
    """Return the response at the exchanged place and at the place itself, relative to that at all others."""
    batch = answers.transform_inputs(
        lambda tensor: _with_noise(tensor, image_axis, place) if tensor is image else tensor
    )
    response = (_maps(answers.predict(batch)[0], axis) - _maps(answers.outputs[0], axis)).abs()
    response = response.mean((0, 1))
    own, exchanged = (_window(len(response), at, 8).to(response.device) for at in (place, place[::-1]))
    rest = response[~(own | exchanged)].mean().clamp_min(float(response.max()) * 1e-3).clamp_min(1e-30)
    return float(response[exchanged].mean() / rest), float(response[own].mean() / rest)


def _with_noise(image: Tensor, axis: int, place: tuple[float, float]) -> Tensor:
    """Return an image with noise of its own standard deviation in a patch."""
    noise = torch.randn(image.shape, generator=torch.Generator().manual_seed(0)).to(image)
    window = _window(image.shape[axis], place, 16).to(image)
    shape = [*window.shape, *[1] * (image.dim() - axis - 2)]
    return image + noise * window.view(shape) * image.float().std().clamp_min(1e-3).to(image)


def _window(side: int, place: tuple[float, float], part: int) -> Tensor:
    """Return a mask of the places around a center, up to a part of the side away along each axis."""
    numbers = torch.arange(side)
    rows, columns = ((numbers - int(share * side)).abs() <= side // part for share in place)
    return rows[:, None] & columns[None, :]


def _exchanges_axes(call: TorchCall) -> bool:
    """Return whether a call exchanges rows and columns of square maps, in channels-first or channels-last order."""
    if call.name.strip("_") not in _TRANSPOSES or not call.inputs or len(call.outputs) != 1:
        return False
    before, after = call.inputs[0], call.outputs[0]
    axes = [_square_axis(tensor) for tensor in (before, after)]
    if axes[0] is None or axes[1] is None or before.numel() != after.numel():
        return False
    maps = _maps(before, axes[0])
    return torch.equal(maps.mT, _maps(after, axes[1])) and not _is_symmetric(maps)


def _has_symmetric_map(call: TorchCall) -> bool:
    """Return whether a call returns symmetric maps, as one does that makes them so on purpose."""
    maps = [_maps(tensor, axis) for tensor in call.real_outputs if (axis := _square_axis(tensor)) is not None]
    return any(_is_symmetric(values) and bool(values.std((-2, -1)).gt(0).any()) for values in maps)
