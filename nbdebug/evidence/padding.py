"""Which places of the inputs are padding, and whether what stands there matters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.errors import NotChecked
from nbdebug.evidence.ahead import another
from nbdebug.evidence.answers import Answers
from nbdebug.evidence.ledger import measurement


@dataclass(frozen=True)
class Padding:
    """Padded places, how they are known, and the rows of the output that change with what stands there.

    ``told`` is whether the model was given a mask or lengths; ``places`` are the padded ones, ``touched`` of ``real``
    rows or places of the output changed.
    """

    told: bool
    known_by: str
    places: int
    touched: int
    real: int


@measurement
def padding(answers: Answers) -> Padding:
    """How many real outputs change when only what stands in padded places does."""
    for name, tensor in answers.inputs.items():
        for told in told_by(tensor, answers):
            changed = answers.changed(partial(filled_anew, padded=told, told=tensor))
            return judged(answers, answers.to(changed)[0], told, True, f"input {name!r}")
    for path, module in answers.setup.eager.named_modules():
        padded = by_index(module, answers)
        if padded is not None:
            with shifted(module):
                after = answers.to(answers.batch)[0]
            return judged(answers, after, padded, False, f"padding_idx={module.padding_idx} of {path}")
    raise NotChecked("no mask, no lengths and no padding_idx tell padded places")


def judged(answers: Answers, after: Tensor, padded: Tensor, told: bool, known_by: str) -> Padding:
    """The outputs that changed, those of padded places left out."""
    moved = answers.differs(after)
    if moved.dim() >= 2 and moved.shape[:2] == padded.shape:
        rows = moved.flatten(2).any(2)[~padded] if moved.dim() > 2 else moved[~padded]
    elif moved.dim() and len(moved) == len(padded):
        rows = moved.reshape(len(moved), -1).any(1)[padded.any(1) & ~padded.all(1)]
    else:
        raise NotChecked("the output has no row for each sample")
    return Padding(told, known_by, int(padded.sum()), int(rows.sum()), rows.numel())


def told_by(tensor: Tensor, answers: Answers) -> Iterator[Tensor]:
    """The places that an input tells to be padded, as mask or lengths, where nothing but one value stands in them."""
    others = [t for t in answers.inputs.values() if t is not tensor and t.dim() > 1 and not is_flags(t)]
    for padded in [*by_mask(tensor), *by_length(tensor, others)]:
        contents = [t[padded] for t in others if t.shape[:2] == padded.shape]
        if contents and bool(padded.any()) and all(bool((content == content[0]).all()) for content in contents):
            yield padded


def is_flags(tensor: Tensor) -> bool:
    """Whether nothing but zeros and ones of integers or booleans stand in a tensor."""
    return not tensor.is_floating_point() and bool(((tensor == 0) | (tensor == 1)).all())


def by_mask(mask: Tensor) -> Iterator[Tensor]:
    """Places by a mask of two values that changes at most once in each row: both readings of it."""
    if mask.dim() != 2 or not is_flags(mask):
        return
    flags = mask.bool()
    turns = (flags[:, 1:] != flags[:, :-1]).sum(1)
    if bool(turns.any()) and int(turns.max()) == 1:
        yield from (reading for reading in (~flags, flags) if not bool(reading.all(1).any()))


def by_length(lengths: Tensor, others: list[Tensor]) -> Iterator[Tensor]:
    """Places beyond a length for each sample, where the longest fills its row."""
    if lengths.dim() != 1 or lengths.is_floating_point() or int(lengths.min()) < 1:
        return
    for other in others:
        if len(other) == len(lengths) and other.shape[1] == int(lengths.max()):
            yield torch.arange(other.shape[1], device=other.device) >= lengths.to(other.device).unsqueeze(1)


def by_index(module: nn.Module, answers: Answers) -> Tensor | None:
    """The padded places by an embedding's index for padding, where it stands at the ends of rows alone."""
    index = module.padding_idx if isinstance(module, nn.Embedding) else None
    for tensor in answers.inputs.values():
        if index is None or tensor.is_floating_point() or tensor.dim() != 2:
            continue
        padded = tensor == index
        turns = (padded[:, 1:] != padded[:, :-1]).sum(1)
        if int(turns.max()) == 1 and not bool(padded.all(1).any()):
            return padded
    return None


def filled_anew(tensor: Tensor, padded: Tensor, told: Tensor) -> Tensor:
    """An input with other values in padded places, unless it is what tells of them, or flags."""
    if tensor is told or tensor.dtype == torch.bool or tensor.shape[:2] != padded.shape:
        return tensor
    after = tensor.clone()
    after[padded] = another(tensor)[padded]
    return after


@contextmanager
def shifted(embedding: Any) -> Iterator[None]:
    """A block in which an embedding gives another vector for padding; its weights, which may be tied, stay."""

    def shift(module: Any, args: tuple[Tensor, ...], vectors: Tensor) -> Tensor:
        padded: Tensor = args[0] == module.padding_idx
        return vectors + padded.unsqueeze(-1).to(vectors.dtype)

    handle = embedding.register_forward_hook(shift)
    try:
        yield
    finally:
        handle.remove()
