"""Outputs of a sequence model that depend on later inputs, and the call that lets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.measurements.perturbation import EvalOutputs, MixingCall, track_change, zeros_filled
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.sequence_order import NextTokenOffset, move_positions_first, replace_later_inputs
from nbdebug.setup.batch import Batch

SLICING_CALLS = ("getitem", "narrow")
_PRODUCT_CALLS = {"matmul", "bmm", "baddbmm", "einsum"}
_MASKING_CALLS = {"masked_fill", "where", "add", "sub"}
_SOFTMAX_CALLS = {"softmax", "multi_head_attention_forward", "scaled_dot_product_attention"}


@dataclass(frozen=True)
class FutureInfluence:
    """Counted positions up to ``position`` whose outputs depend on inputs after it, and the calls that mix them.

    ``cause`` is the first mixing call; or the mask or softmax before it, since attention scores may contain all
    positions; or the first call behind a mask that hides the later ones. ``padding`` is the call that pads both ends,
    if slices of its result move later positions to earlier ones. ``has_softmax`` tells whether a softmax over positions
    reads them, so that a mask would help.
    """

    position: int
    counted: int
    affected_positions: tuple[int, ...]
    mixing_calls: tuple[MixingCall, ...]
    cause: TorchCall | None = None
    padding: TorchCall | None = None
    has_softmax: bool = False


@measurement
def future_influence(eval_outputs: EvalOutputs, next_token_offset: NextTokenOffset) -> FutureInfluence:
    """Positions of the output that depend on later inputs, now or once layers that start at zero are trained."""
    influence = _measure_influence(eval_outputs, next_token_offset)
    if influence.affected_positions:
        return influence
    with zeros_filled(eval_outputs) as filled:
        return influence if filled is eval_outputs else _measure_influence(filled, next_token_offset)


def _measure_influence(eval_outputs: EvalOutputs, next_token_offset: NextTokenOffset) -> FutureInfluence:
    position = next_token_offset.length // 2
    changed = replace_later_inputs(eval_outputs, next_token_offset, position)
    affected = move_positions_first(
        eval_outputs.changed_values(eval_outputs.predict(changed)[0]), next_token_offset.target, next_token_offset.axis
    )
    counted_positions = [t for t in next_token_offset.counted_positions if t <= position]
    affected_positions = tuple(t for t in counted_positions if bool(affected[t].any()))
    later = range(position + 1, next_token_offset.length)
    if not affected_positions:
        return FutureInfluence(position, len(counted_positions), (), ())
    mixing_calls = track_change(eval_outputs, changed, later, next_token_offset.length)
    calls = _record_both(eval_outputs, changed)
    cause = _find_influence_cause([call for call, _ in calls], mixing_calls[0].call) if mixing_calls else None
    is_masked = cause is not None and mixing_calls[0].call.name in _PRODUCT_CALLS and cause.name in _MASKING_CALLS
    leak = _find_leak_behind_mask(calls, cause, position, next_token_offset.length) if cause and is_masked else None
    return FutureInfluence(
        position,
        len(counted_positions),
        affected_positions,
        mixing_calls,
        leak or cause,
        _find_two_sided_padding(calls, position, next_token_offset.length),
        leak is None and (is_masked or (cause is not None and cause.name in _SOFTMAX_CALLS)),
    )


def _record_both(answers: EvalOutputs, changed: Batch) -> list[tuple[TorchCall, TorchCall]]:
    """Return the calls of two passes in pairs: one of the batch, one with other inputs at the later positions."""
    passes: list[list[TorchCall]] = [[], []]
    for recorded, batch in zip(passes, (answers.batch, changed), strict=True):
        with record_calls(answers.setup.eager_model, recorded.append):
            answers.predict(batch)
    pairs = zip(*passes, strict=False)
    return [*takewhile(lambda pair: pair[0].name == pair[1].name, pairs)]


def _find_two_sided_padding(
    calls: Sequence[tuple[TorchCall, TorchCall]], position: int, length: int
) -> TorchCall | None:
    """Return the call that pads both ends of a tensor of which a slice holds later positions at earlier ones."""
    padded: dict[int, TorchCall] = {}
    for before, after in calls:
        if before.name == "pad":
            padded[id(before.outputs[0])] = before
        source = padded.get(id(before.inputs[0])) if before.name in SLICING_CALLS and before.inputs else None
        if source is not None and _moves_to_earlier(before.outputs[0], after.outputs[0], position, length):
            return source
    return None


def _moves_to_earlier(before: Tensor, after: Tensor, position: int, length: int) -> bool:
    """Return whether an axis of the positions has changed from an earlier one than the first that was changed."""
    mask = before != after
    for axis in range(mask.dim()):
        along = mask.movedim(axis, 0).flatten(1).any(1) if mask.dim() > 1 else mask
        changed = along.nonzero().flatten().tolist()
        if len(along) == length and changed and 0 < changed[0] <= position:
            return True
    return False


def _find_influence_cause(recorded: Sequence[TorchCall], mixing_call: TorchCall) -> TorchCall:
    """Return the mask applied to the scores before softmax, else the softmax; the mixing call if it is no product.

    A convolution that is padded on both sides mixes no later positions until a slice moves its positions.
    """
    place = (mixing_call.name, mixing_call.module, mixing_call.line)
    start = next((i for i, call in enumerate(recorded) if (call.name, call.module, call.line) == place), 0)
    if mixing_call.name not in _PRODUCT_CALLS:
        return next((call for call in recorded[start + 1 :] if _moves_positions(call, recorded[start])), mixing_call)
    scores, mask = {id(t) for t in recorded[start].outputs}, None
    for call in recorded[start + 1 :]:
        if not scores & {id(t) for t in call.inputs}:
            continue
        scores |= {id(t) for t in call.outputs}
        mask = call if call.name in _MASKING_CALLS else mask
        if call.name == "softmax":
            return mask or call
    return mixing_call


def _find_leak_behind_mask(
    calls: Sequence[tuple[TorchCall, TorchCall]], mask: TorchCall, position: int, length: int
) -> TorchCall | None:
    """Return the first call whose rows depend on later positions, if a mask before it hides these.

    Such is a softmax over the queries, or a normalization over them.
    """
    start = next(index for index, (call, _) in enumerate(calls) if call is mask)
    if _rows_change(*calls[start], position, length):
        return None
    return next((pair[0] for pair in calls[start:] if _rows_change(*pair, position, length)), None)


def _rows_change(before: TorchCall, after: TorchCall, position: int, length: int) -> bool:
    """Return whether a row up to a position changes in results whose last axis but one is that of the positions."""
    return any(
        bool((old != new)[..., : position + 1, :].any())
        for old, new in zip(before.outputs, after.outputs, strict=True)
        if old.dim() > 1 and old.shape == new.shape and old.shape[-2] == length
    )


def _moves_positions(call: TorchCall, maker: TorchCall) -> bool:
    """Return whether a call slices the output of another one, and drops its first values."""
    if call.name not in SLICING_CALLS or not any(call.inputs[0] is output for output in maker.outputs):
        return False
    whole, part = call.inputs[0], call.outputs[0]
    is_shorter = part.dim() == whole.dim() and part.numel() < whole.numel()
    return is_shorter and part.storage_offset() != whole.storage_offset()
