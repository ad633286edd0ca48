"""Copies of each sample, as for the heads of an attention, that meet the copies of other samples."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.setup import Batch
from nbdebug.source.location import SourceLine

_Layout = Literal["in turn", "together"]
_ATTENTION = "multi_head_attention_forward"
_ATTENTION_SIGNATURE = inspect.signature(F.multi_head_attention_forward)
_PAIRING_CALLS = frozenset(
    {"add", "radd", "iadd", "sub", "mul", "rmul", "imul", "where", "masked_fill", "bmm", "matmul"}
)
_PAIRING_CALLS |= {"baddbmm", "scaled_dot_product_attention", "cat", "concat"}
_MAX_STEPS = 32


@dataclass(frozen=True)
class CrossedCopies:
    """A tensor with several rows for each sample, in another order than the rows that it meets in ``call``.

    The rows of a sample are ``in turn`` if row k belongs to sample k % samples, and ``together`` if it belongs to
    sample k // copies; ``layout`` is that of the tensor. ``rows`` are those of the changed sample, ``line`` is where
    the copies are made, and ``is_attention_mask`` tells whether the tensor is the 3-D mask of an attention of torch.
    """

    call: TorchCall
    layout: _Layout
    copies: int
    samples: int
    rows: tuple[int, ...]
    is_attention_mask: bool
    line: SourceLine | None


@dataclass(frozen=True)
class _Operand:
    tensor: Tensor
    rows: tuple[int, ...]
    copies: int
    layout: _Layout


def find_crossed_copies(answers: EvalOutputs, changed: Batch, size: int) -> CrossedCopies | None:
    """Return the first tensor whose rows of the first sample, changed in ``changed``, meet rows of other samples."""
    before, after = answers.recorded_calls(answers.batch), answers.recorded_calls(changed)
    if [call.name for call in before] != [call.name for call in after]:
        return None
    for number, (first, second) in enumerate(zip(before, after, strict=True)):
        crossed = _crossed_operand(first, second, size)
        if crossed is not None:
            is_mask = first.name == _ATTENTION
            line = _copying_line(before[:number], crossed.tensor) or first.line
            return CrossedCopies(first, crossed.layout, crossed.copies, size, crossed.rows, is_mask, line)
    return None


def _crossed_operand(first: TorchCall, second: TorchCall, size: int) -> _Operand | None:
    """Return the operand of a call whose rows of the changed sample are not where the call expects them."""
    if first.name == _ATTENTION:
        before, after = _attention_mask(first), _attention_mask(second)
        operand = _operand(before, after, size) if before is not None and after is not None else None
        return operand if operand is not None and operand.layout == "in turn" else None
    if first.name not in _PAIRING_CALLS:
        return None
    operands = list(_operands(first, second, size))
    if len({operand.layout for operand in operands}) < 2 or len({len(operand.tensor) for operand in operands}) > 1:
        return None
    copied = [operand for operand in operands if _has_equal_copies(operand)]
    return next(iter(sorted(copied, key=lambda operand: operand.layout)), None)


def _attention_mask(call: TorchCall) -> Tensor | None:
    """Return the mask of an attention if it has one slice for each sample and head."""
    try:
        mask = _ATTENTION_SIGNATURE.bind(*call.args, **call.kwargs).arguments.get("attn_mask")
    except TypeError:
        return None
    return mask if isinstance(mask, Tensor) and mask.dim() == 3 else None


def _operands(first: TorchCall, second: TorchCall, size: int) -> Iterator[_Operand]:
    for before, after in zip(first.inputs, second.inputs, strict=False):
        operand = _operand(before, after, size)
        if operand is not None:
            yield operand


def _operand(before: Tensor, after: Tensor, size: int) -> _Operand | None:
    """Return a tensor with several rows for each sample if only those of the first sample have changed."""
    if before.layout is not torch.strided or before.layout is not after.layout or not before.numel():
        return None
    if not before.dim() or before.shape != after.shape or len(before) % size or len(before) == size:
        return None
    rows = tuple((before != after).reshape(len(before), -1).any(1).nonzero().flatten().tolist())
    copies = len(before) // size
    is_in_turn, is_together = all(row % size == 0 for row in rows), all(row < copies for row in rows)
    if is_in_turn == is_together:  # as where only the first row has changed
        return None
    return _Operand(before, rows, copies, "in turn" if is_in_turn else "together")


def _has_equal_copies(operand: _Operand) -> bool:
    """Return whether the rows of each sample are the same."""
    samples = len(operand.tensor) // operand.copies
    shape = (operand.copies, samples) if operand.layout == "in turn" else (samples, operand.copies)
    rows = operand.tensor.reshape(*shape, -1)
    axis = 0 if operand.layout == "in turn" else 1
    return torch.equal(rows, rows.narrow(axis, 0, 1).expand_as(rows))


def _copying_line(calls: Sequence[TorchCall], tensor: Tensor) -> SourceLine | None:
    """Return the line of the call that makes as many rows as a tensor has out of fewer, before later changes."""
    makers: dict[int, TorchCall] = {}
    for call in calls:
        for output in call.outputs:
            makers.setdefault(id(output), call)  # a change in place returns the same tensor again
    line, rows = None, len(tensor)
    for _ in range(_MAX_STEPS):
        maker = makers.pop(id(tensor), None)
        if maker is None:
            break
        line = maker.line or line
        sources = [source for source in maker.inputs if source.dim() and len(source) == rows]
        if not sources:
            break
        tensor = sources[0]
    return line
