"""The rows of batches: which leaves have one for each sample, how large they are, and batches one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from nbdebug.attribution.given import count, inputs_of
from nbdebug.setup import Batch
from nbdebug.setup.trees import leaves, transform


def has_rows(leaf: Any) -> TypeGuard[Tensor]:
    """Whether a leaf is a tensor with a first axis, which may be that of samples."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0


def per_sample(leaf: Any, size: int) -> TypeGuard[Tensor]:
    """Whether a leaf has a row for each of so many samples."""
    return has_rows(leaf) and len(leaf) == size


def numbers_of(batch: Batch) -> int:
    """How many numbers the inputs of a sample hold."""
    return sum(leaf[0].numel() for _, leaf in inputs_of(batch) if has_rows(leaf))


def parts(batch: Batch) -> Iterator[Any]:
    """Every leaf of inputs and targets."""
    return (leaf for _, leaf in leaves((batch.args, batch.kwargs, batch.targets)))


def forms(batch: Batch) -> list[Any]:
    """What one sample looks like: the shape of each leaf of inputs and targets, None for what is no tensor."""
    return [tuple(leaf.shape[1:]) if isinstance(leaf, Tensor) else None for leaf in parts(batch)]


def joined(found: Sequence[Batch]) -> Batch:
    """Batches of the same forms one after the other; what has no row for each sample is that of the first."""
    sizes = [count(one) for one in found]
    columns = zip(*map(parts, found), strict=True)
    whole = iter([torch.cat(one) if all(map(per_sample, one, sizes)) else one[0] for one in columns])
    args, kwargs, targets = transform((found[0].args, found[0].kwargs, found[0].targets), lambda _: next(whole))
    return Batch(args, kwargs, targets)
