"""The inputs that make no difference to what the model returns."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.zeros import filled
from nbdebug.exceptions import NotChecked
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch


@measurement
def ignored_inputs(answers: Answers) -> dict[str, bool]:
    """For each input that can be changed, whether nothing that the model returns changes with it, in any mode."""
    found = {}
    for name, tensor in answers.inputs.items():
        changes = [one for one in substitutes(tensor) if not torch.equal(one, tensor)]
        if changes:
            found[name] = all(is_ignored(answers, tensor, change) for change in changes)
    if not found:
        raise NotChecked("no input is a tensor with rows that differ")
    return found


def substitutes(tensor: Tensor) -> list[Tensor]:
    """Other values of an input: its first row everywhere; for real numbers, also twice the distance from one."""
    if tensor.layout is not torch.strided or not tensor.dim() or not tensor.numel():
        return []
    rows = tensor[:1].expand_as(tensor).clone()
    return [rows, 1 - 2 * tensor] if tensor.is_floating_point() else [rows]


def is_ignored(answers: Answers, tensor: Tensor, change: Tensor) -> bool:
    """Whether one change of one input moves nothing: in eval mode, in train mode, and beyond weights of zero."""
    changed = answers.changed(lambda one: change if one is tensor else one)
    if moved(answers, answers.first, asked(answers, changed, training=False)):
        return False
    with filled(answers.setup.eager):
        return not any(
            moved(answers, asked(answers, answers.batch, mode), asked(answers, changed, mode)) for mode in (False, True)
        )


def asked(answers: Answers, batch: Batch, training: bool) -> tuple[Tensor, ...]:
    """The answer to a batch, with no trace in the buffers; nothing where the model refuses it."""
    with Preserve(answers.setup.eager) if training else nullcontext():
        try:
            return answers.to(batch, training)
        except Exception:
            return ()


def moved(answers: Answers, before: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> bool:
    """Whether two answers differ anywhere; to be refused an answer is to be seen."""
    if not after or [t.shape for t in before] != [t.shape for t in after]:
        return True
    pairs = zip(before, after, strict=True)
    return not all(torch.allclose(a, b, rtol=0.0, atol=answers.noise, equal_nan=True) for a, b in pairs)
