"""Attentions whose keys and values belong to different positions of the sequence that both are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.autograd.attention_calls import AttentionCall, CallGraph, mixture_axes
from nbdebug.finding import Location
from nbdebug.measurements.attention_pass import AttentionPass
from nbdebug.measurements.registry import slow_measurement

_MIN_LENGTH = 4  # one place to the left is one to the right in a shorter circle


@dataclass(frozen=True)
class ShiftedValues:
    """One attention over ``length`` positions, whose values come from ``distance`` positions beside their keys."""

    where: Location
    length: int
    distance: int


@slow_measurement
def shifted_values(attention_pass: AttentionPass) -> list[ShiftedValues]:
    """Attentions whose values are those of the keys rolled around the ends of the sequence.

    By the gradients of the first, the middle and the last key and value with respect to the values that both are made
    of. A shift that drops the position at one end pairs a token with the next one on purpose, as a memory does.
    """
    attentions: list[ShiftedValues] = []
    for attention in attention_pass.attentions:
        if (offset := _measure_offset(attention_pass.graph, attention, attention_pass.samples)) is not None:
            length = _key_length(attention)
            distance = min(offset, length - offset)
            attentions.append(ShiftedValues(attention.mixture.where, length, distance))
    return attentions


def _key_axis(attention: AttentionCall) -> int | None:
    """Return the axis of the positions of the keys; None for an einsum, and if keys come first."""
    if attention.is_by_torch:
        return -2
    is_product = attention.scores.name in ("matmul", "bmm", "baddbmm") and attention.scores.inputs[-1] is attention.key
    return -1 if is_product else None


def _key_length(attention: AttentionCall) -> int:
    axis = _key_axis(attention)
    return attention.key.shape[axis] if axis is not None and attention.key.dim() > 1 else 0


def _measure_offset(graph: CallGraph, attention: AttentionCall, samples: int) -> int | None:
    """Return how far the values are rolled from their keys; None if they are not, or if it is not known."""
    axes, length = (_key_axis(attention), mixture_axes(attention, samples).keys), _key_length(attention)
    parts = (attention.key, attention.value)
    if axes[0] is None or axes[1] is None or length < _MIN_LENGTH or parts[1].shape[axes[1]] != length:
        return None
    for source, axis in _common_sources(graph, parts[0], parts[1], length):
        offsets = set[int]()
        for position in (0, length // 2, length - 1):
            origins = [
                _origin(part.select(part_axis, position), source, axis)
                for part, part_axis in zip(parts, axes, strict=True)
                if part_axis is not None
            ]
            if origins[0] is None or origins[1] is None:
                return None
            offsets.add((origins[1] - origins[0]) % length)
        return (offsets.pop() or None) if len(offsets) == 1 else None
    return None


def _common_sources(graph: CallGraph, key: Tensor, value: Tensor, length: int) -> Iterator[tuple[Tensor, int]]:
    """Yield what both keys and values have been made of, nearest first, with the only axis of the positions."""
    names = frozenset(call.name for call in graph.calls)
    behind_key = {id(tensor) for tensor, _ in graph.sources(key, names)}
    for tensor, _ in graph.sources(value, names):
        axes = [axis for axis, size in enumerate(tensor.shape) if size == length]
        axes = axes[1:] if len(axes) > 1 and axes[0] == 0 else axes
        if id(tensor) in behind_key and tensor.requires_grad and tensor.dim() > 2 and len(axes) == 1:
            yield tensor, axes[0]


def _origin(part: Tensor, source: Tensor, axis: int) -> int | None:
    """Return the only position of a source that a part depends on; None if there are others, or none."""
    if not part.requires_grad:
        return None
    direction = torch.randn(part.shape, generator=torch.Generator().manual_seed(0)).to(part)
    try:
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad((part * direction).sum(), source, retain_graph=True, allow_unused=True)
    except RuntimeError:  # a call in place has changed what the gradient needs
        return None
    if gradient is None:
        return None
    positions = gradient.movedim(axis, 0).flatten(1).any(1).nonzero().flatten().tolist()
    return positions[0] if len(positions) == 1 else None
