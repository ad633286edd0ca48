"""Examples that share their input: a model must give them one answer, whatever their targets say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from nbdebug.setup import Batch
from nbdebug.setup.trees import leaves, tensors


def sample_axis(tensor: Tensor, size: int) -> int | None:
    """The axis along which the samples lie: the first of the leading two that is as long as the batch."""
    return next((axis for axis in (0, 1) if axis < tensor.dim() and tensor.shape[axis] == size), None)


def groups(batch: Batch, size: int) -> tuple[int, ...]:
    """A number for each example, the same for those with the very same input."""
    whole: Any = (batch.args, batch.kwargs)
    parts = rows_of(whole, size)
    if not parts or any(isinstance(leaf, PackedSequence) for _, leaf in leaves(whole)):
        return tuple(range(size))
    seen: dict[tuple[bytes, ...], int] = {}
    keys = (tuple(part[row] for part in parts) for row in range(size))
    return tuple(seen.setdefault(key, len(seen)) for key in keys)


def rows_of(tree: Any, size: int) -> list[list[bytes]]:
    """The bytes of each sample in each tensor of a tree."""
    found = [(tensor, sample_axis(tensor, size)) for tensor in tensors(tree) if tensor.layout == torch.strided]
    moved = [tensor.detach().movedim(axis, 0).contiguous().cpu() for tensor, axis in found if axis is not None]
    rows = (tensor.reshape(size, -1).view(torch.uint8).numpy() for tensor in moved)
    return [[row.tobytes() for row in part] for part in rows]


def contradictions(same: Sequence[int], batch: Batch) -> tuple[tuple[int, int], ...]:
    """Pairs of examples with the same input and other targets."""
    targets = rows_of(batch.targets, len(same))
    first: dict[int, int] = {}
    found = []
    for row, group in enumerate(same):
        other = first.setdefault(group, row)
        if any(part[row] != part[other] for part in targets):
            found.append((other, row))
    return tuple(found)
