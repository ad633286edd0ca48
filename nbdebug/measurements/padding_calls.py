"""The call of a model where padding first changes values at real positions, and the one that should mask it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.replaced_calls import Replacements, record_whole_calls
from nbdebug.measurements.padding_masks import find_mask_call
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.setup import Batch

_TOLERANCE = 1e-4  # relative; sums over other widths are rounded differently
_MIN_EFFECT = 1e-5  # relative to the largest output; a difference that changes it by less cancels out
_MAX_CANCELED = 12
_FEW, _MOST = 0.5, 0.5  # of the values of a call, and of the effect of the padding on the output


@dataclass(frozen=True)
class PaddingPass:
    """The torch calls of a pass, and its output."""

    calls: list[TorchCall]
    output: Tensor


_Run = Callable[[Replacements], PaddingPass]


def run_pass(answers: EvalOutputs, batch: Batch, replaced: Replacements | None = None) -> PaddingPass:
    """Return a pass, in which the results of some calls are replaced."""
    calls: list[TorchCall] = []
    with record_whole_calls(answers.setup.eager_model, calls.append, replaced):
        output = answers.predict(batch)[0]
    return PaddingPass(calls, output)


def record_pass(answers: EvalOutputs, batch: Batch) -> list[TorchCall]:
    """Return the torch calls of a pass."""
    return run_pass(answers, batch).calls


class _Region(Protocol):
    """The values of a tensor that must not depend on padding."""

    def select(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return these values of the same tensor in two passes."""

    def merge(self, own: Tensor, other: Tensor) -> Tensor:
        """Return a tensor with these values of another pass."""


class _CommonColumnRegion:
    """The columns that two passes of different widths have in common."""

    def select(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        common = tuple(slice(min(sizes)) for sizes in zip(first.shape, second.shape, strict=True))
        return first[common], second[common]

    def merge(self, own: Tensor, other: Tensor) -> Tensor:
        merged = own.clone()
        target, source = self.select(merged, other)
        target.copy_(source)
        return merged


class _PaddingFreeRegion:
    """The real positions of each axis that has the width of the input."""

    def __init__(self, real: Tensor) -> None:
        self._real = real

    def select(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        for axis in self._axes(first):
            index = self._real.nonzero().flatten().to(first.device)
            first, second = first.index_select(axis, index), second.index_select(axis, index)
        return first, second

    def merge(self, own: Tensor, other: Tensor) -> Tensor:
        is_real = torch.ones_like(own, dtype=torch.bool)
        for axis in self._axes(own):
            is_real &= self._real.to(own.device).reshape([-1 if a == axis else 1 for a in range(own.dim())])
        return torch.where(is_real, other, own)

    def _axes(self, tensor: Tensor) -> list[int]:
        return [axis for axis, size in enumerate(tensor.shape) if size == len(self._real)]


def find_width_call(answers: EvalOutputs, wide: Batch, narrow: Batch, padded: Tensor) -> TorchCall | None:
    """Return the call whose values depend on the columns that only ``wide`` has, or the mask that feeds it.

    The torch calls of two passes are compared in their order; None if these differ. ``padded`` marks the padding of
    the wide one.
    """
    return _find_call(
        lambda replaced: run_pass(answers, wide, replaced),
        lambda replaced: run_pass(answers, narrow, replaced),
        _CommonColumnRegion(),
        padded,
        (),
    )


def find_losing_call(answers: EvalOutputs, original: Batch, changed: Batch) -> TorchCall | None:
    """Return the call that takes the last values for the first row which depend on its content, and loses them.

    The first rows of the two batches have other content; None if the calls of the passes differ.
    """
    first, second = run_pass(answers, original).calls, run_pass(answers, changed).calls
    if [call.name for call in first] != [call.name for call in second]:
        return None
    depending = [number for number, pair in enumerate(zip(first, second, strict=True)) if _first_rows_differ(*pair)]
    if not depending:
        return None
    kept = {id(tensor) for tensor in first[depending[-1]].outputs}
    return next((call for call in first[depending[-1] + 1 :] if any(id(t) in kept for t in call.inputs)), None)


def _first_rows_differ(first: TorchCall, second: TorchCall) -> bool:
    pairs = zip(first.outputs, second.outputs, strict=False)
    return any(a.shape == b.shape and a.dim() > 0 and len(a) > 1 and not torch.equal(a[0], b[0]) for a, b in pairs)


def find_content_call(original: _Run, changed: _Run, padded: Tensor, masks: Collection[Tensor]) -> TorchCall | None:
    """Return the call whose values at real positions depend on those at others, or the mask that feeds it.

    The two passes have other content at padded positions. ``padded`` tells which positions these are; all rows of the
    batch are the same. ``masks`` are inputs that declare them.
    """
    return _find_call(original, changed, _PaddingFreeRegion(~padded[0]), padded, masks)


def _find_call(
    original: _Run, changed: _Run, region: _Region, padded: Tensor, masks: Collection[Tensor]
) -> TorchCall | None:
    """Return the first call with other values that reach the output, or the mask that feeds it.

    None if the calls of the passes differ. The largest score of an attention often depends on padding, but is the same
    for all scores of a softmax and cancels out: such a call gets its original values in further passes. So does a call
    with few other values, such as a convolution at the ends of rows, if most of the effect remains: then a later call
    has it.
    """
    first, second, canceled = original({}), changed({}), dict[int, tuple[Tensor, ...]]()
    least, place = _MIN_EFFECT * float(first.output.abs().max()), None
    for _ in range(_MAX_CANCELED):
        number = _find_first_difference(first.calls, second.calls, region, canceled)
        if number is None:
            break
        outputs, other_outputs = first.calls[number].outputs, second.calls[number].outputs
        injected = original({number: tuple(map(region.merge, outputs, other_outputs))})
        canceled[number] = tuple(map(region.merge, other_outputs, outputs))
        rest = changed(canceled)
        if _largest_difference(first.output, injected.output) > least:
            is_wide = _changed_share(outputs, other_outputs, region) >= _FEW
            place = number if is_wide or place is None else place
            effect, remaining = (_largest_difference(first.output, run.output) for run in (second, rest))
            if is_wide or remaining < _MOST * effect:
                break
        second = rest
    if place is None:
        return None
    calls = first.calls[: place + 1]
    return find_mask_call(calls, padded, masks) or calls[-1]


def _changed_share(outputs: tuple[Tensor, ...], other_outputs: tuple[Tensor, ...], region: _Region) -> float:
    """Return the share of the values of a call's first result that differ between two passes."""
    own, other = region.select(outputs[0], other_outputs[0])
    return float((~_close(own, other)).float().mean()) if own.shape == other.shape and own.numel() else 0.0


def _largest_difference(first: Tensor, second: Tensor) -> float:
    return float((first - second).abs().max()) if first.shape == second.shape and first.numel() else 0.0


def _find_first_difference(
    calls: list[TorchCall], other_calls: list[TorchCall], region: _Region, canceled: Collection[int]
) -> int | None:
    """Return the number of the first call of two passes with other values; None if the calls differ."""
    used = {id(tensor) for call in calls for tensor in call.inputs}
    for number, (first, second) in enumerate(zip(calls, other_calls, strict=False)):
        pairs = list(zip(first.outputs, second.outputs, strict=False))
        if (first.name, first.line) != (second.name, second.line) or any(a.dim() != b.dim() for a, b in pairs):
            return None
        # A recurrent layer also returns a last state, which the model may not read.
        pairs = [pair for pair in pairs if id(pair[0]) in used] or pairs
        is_float = [pair for pair in pairs if pair[0].is_floating_point() and pair[1].is_floating_point()]
        if number not in canceled and not all(_agree(*region.select(*pair)) for pair in is_float):
            return number
    return None


def _agree(first: Tensor, second: Tensor) -> bool:
    """Check whether two tensors have the same values, up to rounding."""
    if first.shape != second.shape or not first.numel():
        return True
    return bool(_close(first, second).all())


def _close(first: Tensor, second: Tensor) -> Tensor:
    scale = float(second.nan_to_num(posinf=0.0, neginf=0.0).abs().max())
    return torch.isclose(first, second, _TOLERANCE, _TOLERANCE * scale, equal_nan=True)
