"""A background of sequences of another length, cut or padded to that of the samples."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from nbdebug.attribution.given import inputs_of, with_leaves
from nbdebug.setup import Batch


def fitted(background: Batch | None, samples: Batch) -> Batch | None:
    """The background with sequences as long as those of the samples; zeros, which mostly are padding, fill it up.

    Only the axis after that of samples may differ, and not that of pictures; else the background stays as it is, and is
    refused where it is used.
    """
    if background is None:
        return None
    pairs = zip(inputs_of(background), inputs_of(samples), strict=False)
    changed = {
        number: as_long(one, other)
        for number, ((_, one), (_, other)) in enumerate(pairs)
        if isinstance(one, Tensor) and isinstance(other, Tensor) and differ_in_length(one, other)
    }
    return replace(with_leaves(background, changed), targets=(), raw=None) if changed else background


def differ_in_length(one: Tensor, other: Tensor) -> bool:
    """Whether two batches of sequences differ in nothing but their length."""
    few = one.dim() == other.dim() and 2 <= one.dim() <= 3
    longer = few and one.shape[1] != other.shape[1] and one.shape[2:] == other.shape[2:]
    return longer and (one.dim() == 3 or not one.is_floating_point())


def as_long(one: Tensor, other: Tensor) -> Tensor:
    """A batch of sequences, as long as the other."""
    length = other.shape[1]
    if one.shape[1] >= length:
        return one[:, :length]
    filled: Tensor = torch.zeros(len(one), length, *one.shape[2:], dtype=one.dtype, device=one.device)
    filled[:, : one.shape[1]] = one
    return filled
