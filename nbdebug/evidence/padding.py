"""Which places of the inputs are padding, and whether what stands there matters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.ahead import another
from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, calls
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.padded_meeting import padded_meeting
from nbdebug.exceptions import NotChecked


@dataclass(frozen=True)
class Padding:
    """Padded places, how they are known, and the rows of the output that change with what stands there.

    ``told`` is whether the model was given a mask or lengths; ``places`` are the padded ones, ``touched`` of ``real``
    rows or places of the output changed. ``culprit`` is the call in which padded places come to real ones.
    """

    told: bool
    known_by: str
    places: int
    touched: int
    real: int
    culprit: Call | None = None


@measurement
def padding(answers: Answers) -> Padding:
    """How many real outputs change when only what stands in padded places does."""
    for name, tensor in answers.inputs.items():
        for told in told_by(tensor, answers):
            found = judged(answers, with_other_padding(answers, told, tensor), told, True, f"input {name!r}")
            return (
                replace(found, culprit=padded_meeting(answers, told, filled_anew, tensor)) if found.touched else found
            )
    for path, module in answers.setup.eager.named_modules():
        padded = by_index(module, answers)
        if padded is not None:
            with shifted(module, padded):
                after = answers.to(answers.batch)[0]
            found = judged(answers, after, padded, False, f"padding_idx={module.padding_idx} of {path}")
            return replace(found, culprit=packing(answers)) if found.touched else found
    raise NotChecked("no mask, no lengths and no padding_idx tell padded places")


def packing(answers: Answers) -> Call | None:
    """The call that packs sequences, which is to leave padding out, if the model has one."""
    heard: list[Call] = []
    with calls(answers.setup.eager, heard.append):
        answers.to(answers.batch)
    return next((call for call in heard if call.name == "pack_padded_sequence"), None)


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


def with_other_padding(answers: Answers, padded: Tensor, told: Tensor) -> Tensor:
    """The output for other values in padded places: other vectors where they are embedded, else other inputs.

    An embedding is shifted, since models may tell padding by their tokens too.
    """
    changed = answers.changed(
        lambda one: filled_anew(one, padded) if one.is_floating_point() and one is not told else one
    )
    tables = [one for one in answers.setup.eager.modules() if isinstance(one, nn.Embedding)]
    with ExitStack() as stack:
        fired = [stack.enter_context(shifted(one, padded)) for one in tables]
        after = answers.to(changed)[0]
    if any(fired) or is_told_by_bag(answers, padded):
        return after
    return answers.to(answers.changed(lambda one: one if one is told else filled_anew(one, padded)))[0]


def is_told_by_bag(answers: Answers, padded: Tensor) -> bool:
    """Whether a bag of embeddings leaves out, by its index for padding, what stands in the padded places."""
    bags = [one for one in answers.setup.eager.modules() if isinstance(one, nn.EmbeddingBag)]
    indices = {one.padding_idx for one in bags}
    return any(
        not one.is_floating_point() and set(one[padded].tolist()) <= indices
        for one in answers.inputs.values()
        if one.shape == padded.shape and not is_flags(one)
    )


def filled_anew(tensor: Tensor, padded: Tensor) -> Tensor:
    """An input with other values in padded places, unless it has none or holds flags."""
    if tensor.dtype == torch.bool or tensor.shape[:2] != padded.shape:
        return tensor
    after = tensor.clone()
    after[padded] = another(tensor)[padded]
    return after


@contextmanager
def shifted(embedding: nn.Module, padded: Tensor) -> Iterator[list[bool]]:
    """A block in which an embedding gives other vectors in padded places; its weights, which may be tied, stay.

    The list is filled when the embedding is asked for such places.
    """
    fired: list[bool] = []

    def shift(_: Any, args: tuple[Tensor, ...], vectors: Tensor) -> Tensor:
        if args[0].shape != padded.shape:
            return vectors
        fired.append(True)
        return vectors + padded.unsqueeze(-1).to(vectors.dtype)

    handle = embedding.register_forward_hook(shift)
    try:
        yield fired
    finally:
        handle.remove()
