"""Which other samples a sample's output depends on, and the call that brings them together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.following import Meeting, followed
from nbdebug.evidence.ledger import measurement
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch
from nbdebug.setup.trees import tensors


@dataclass(frozen=True)
class Mixing:
    """What one changed sample did: how many of the other ``size`` - 1 samples answered differently, and where."""

    sample: int
    size: int
    touched: tuple[int, ...]
    meetings: tuple[Meeting, ...]


@measurement
def mixing(answers: Answers) -> Mixing:
    """The samples whose output in eval mode depends on one other sample, and the calls that mix them."""
    size = answers.batch.size
    before = answers.first[0]
    if size < 2 or not is_of_samples(before, size) or not is_batch_first(answers.batch, size):
        raise NotChecked("the output has no row that is known to be that of one of several samples")
    changed = first_sample_changed(answers, size)
    moved = answers.differs(answers.to(changed)[0]).reshape(size, -1).any(1)
    touched = tuple(moved[1:].nonzero().flatten().add(1).tolist())
    return Mixing(0, size, touched, followed(answers, changed, [0], size) if touched else ())


def first_sample_changed(answers: Answers, size: int) -> Batch:
    """The batch in which the first sample has the inputs of the next one that differs from it."""
    inputs = [t for t in answers.inputs.values() if is_of_samples(t, size)]
    source = next((i for i in range(1, size) if any(not torch.equal(t[0], t[i]) for t in inputs)), None)
    if source is None:
        raise NotChecked("the inputs do not lie in rows of samples that differ")
    return answers.changed(lambda t: exchanged(t, source) if is_of_samples(t, size) else t)


def is_batch_first(batch: Batch, size: int) -> bool:
    """Whether the first axis is known to be that of the samples: by their indices, or by one target for each.

    A stream of text may come as (length, batch) from a loader of the user's own, its targets likewise.
    """
    if batch.indices is not None:
        return len(batch.indices) == size
    return any(t.dim() == 1 and len(t) == size for t in tensors(batch.targets))


def is_of_samples(tensor: Tensor, size: int) -> bool:
    """Whether a tensor has a row for each sample."""
    return bool(tensor.dim()) and len(tensor) == size


def exchanged(tensor: Tensor, source: int) -> Tensor:
    """The tensor with the row ``source`` in place of the first."""
    after = tensor.clone()
    after[0] = tensor[source]
    return after
