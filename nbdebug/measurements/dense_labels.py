"""Random positions of samples whose targets have a class at each position: the neighborhoods and the classes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional as F

_MAX_CLASSES, _MAX_TOKENS = 256, 4096


def position_classes(targets: tuple[Tensor, ...], ignored: int | None) -> Tensor | None:
    """Return the only target as classes of shape (samples, *positions); None if it has no class at each position.

    An axis of length one after the samples, as in masks of shape (N, 1, H, W), is removed. The class ``ignored`` by
    the loss becomes -1.
    """
    target = targets[0] if len(targets) == 1 else None
    if target is None or target.dim() < 2 or target.is_complex() or not target.numel():
        return None
    target = target.squeeze(1) if target.shape[1] == 1 else target
    is_whole = target.dim() > 1 and bool((target == target.round()).all())
    if not is_whole or float(target.max()) >= _MAX_CLASSES:
        return None
    return target.long().masked_fill(target == ignored, -1) if ignored is not None else target.long()


def draw_positions(classes: Tensor, count: int) -> Tensor:
    """Return up to ``count`` flat positions of each sample, (samples, positions), at random.

    Positions with a negative class, which losses ignore, are drawn only if there are too few others.
    """
    weights = (classes.flatten(1) >= 0).float() + 1e-6
    return torch.multinomial(weights, min(count, weights.shape[1]), generator=torch.Generator().manual_seed(0))


def neighborhoods(inputs: tuple[Tensor, ...], shape: torch.Size, positions: Tensor) -> Tensor | None:
    """Return the values of the inputs at one flat position of each sample, and at the positions next to it.

    ``shape`` is that of the positions. Inputs of shape (N, *shape), (N, C, *shape) and (N, *shape, C) are used; those
    of whole numbers are tokens. None if there are none.
    """
    index = torch.stack(torch.unravel_index(positions, shape), 1)
    parts = [part for tensor in inputs for part in _neighborhood(tensor, shape, index)]
    return torch.cat(parts, 1) if parts else None


def _neighborhood(tensor: Tensor, shape: torch.Size, index: Tensor) -> Iterator[Tensor]:
    """Yield the values of one input around the positions ``index``, one row for each sample."""
    channels_last = _with_channels_last(tensor, shape)
    if channels_last is None:
        return
    rows = torch.arange(len(tensor))
    is_token = not tensor.is_floating_point() and tensor.dtype != torch.uint8 and tensor.dim() == len(shape) + 1
    limits = torch.tensor(shape) - 1
    for offset in product((-1, 0, 1), repeat=len(shape)):
        nearby = (index + torch.tensor(offset)).clamp(min=torch.zeros_like(limits), max=limits)
        values = channels_last[(rows, *nearby.unbind(1))]
        yield _one_hot(values[:, 0]) if is_token else values.float()


def _with_channels_last(tensor: Tensor, shape: torch.Size) -> Tensor | None:
    """Return an input with its positions on the middle axes and its channels last; None if it has other positions."""
    if tensor.shape[1:] == shape:
        return tensor.unsqueeze(-1)
    if tensor.dim() == len(shape) + 2:
        if tensor.shape[2:] == shape:
            return tensor.movedim(1, -1)
        if tensor.shape[1:-1] == shape:
            return tensor
    return None


def _one_hot(tokens: Tensor) -> Tensor:
    """Return tokens as one-hot rows, with the rest of a large vocabulary in one column."""
    return F.one_hot(tokens.long().clamp(0, _MAX_TOKENS - 1), int(tokens.clamp(0, _MAX_TOKENS - 1).max()) + 1).float()
