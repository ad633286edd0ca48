"""What a layer gives, as plain tensors with samples first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from nbdebug.setup.trees import leaves


def pieces(output: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of an output with the way to it, such as ``[1][0]`` or ``.logits``; packed sequences are padded."""
    for path, leaf in leaves(output):
        if isinstance(leaf, PackedSequence):
            leaf = pad_packed_sequence(leaf, batch_first=True)[0]
        if isinstance(leaf, Tensor):
            yield "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path), leaf


def plain(tensor: Tensor, copy: bool = True) -> Tensor:
    """The numbers of any tensor as real ones: dense, padded, sizes of complex ones; ``copy`` in own memory."""
    found = tensor.detach()
    if found.is_nested:
        found = torch.nested.to_padded_tensor(found, 0.0)
    if found.layout is not torch.strided:
        found = found.to_dense()
    if found.is_quantized:
        found = found.dequantize()
    if found.is_complex():
        found = found.abs()
    return found.to(torch.float64 if found.dtype is torch.float64 else torch.float32, copy=copy)


def samples_first(tensor: Tensor, count: int, shape: Sequence[int] | None = None) -> Tensor | None:
    """The tensor with its samples along the first axis; None where they cannot be told apart.

    They lie along the first or the second axis, or, folded with positions or windows, along the first. Several samples
    are told from anything else by the ``shape`` that one of them has alone; -1 in it fits any length.
    """
    folded = shape is None or -1 not in shape  # else positions could be taken for samples
    found = (one for one in readings(tensor, count, folded) if shape is None or fits(one.shape[1:], shape))
    return next(found, None)


def fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether a shape is as wanted."""
    return len(shape) == len(wanted) and all(b in (a, -1) for a, b in zip(shape, wanted, strict=True))


def readings(tensor: Tensor, count: int, folded: bool) -> Iterator[Tensor]:
    """The ways in which samples may lie, the most likely first."""
    shape = tensor.shape
    if tensor.dim() and shape[0] == count:
        yield tensor
    if tensor.dim() > 1 and shape[1] == count:
        yield tensor.movedim(1, 0)
    if folded and tensor.dim() and shape[0] > count and shape[0] % count == 0:
        yield tensor.reshape(count, shape[0] // count, *shape[1:])
    if count == 1:
        yield tensor[None]
