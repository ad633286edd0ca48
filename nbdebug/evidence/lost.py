"""The call in which what tells samples apart is lost."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, calls
from nbdebug.setup import Batch


def lost_at(answers: Answers, change: Callable[[Tensor], Tensor]) -> Call | None:
    """The last call of a forward pass that takes values which ``change`` of the inputs moves, and gives the same.

    None where nothing is lost at once, as when values fade from layer to layer.
    """
    before, after = (heard(answers, batch) for batch in (answers.batch, answers.changed(change)))
    if [call.name for call in before] != [call.name for call in after]:
        return None
    pairs = zip(before, after, strict=True)
    return next((one for one, other in reversed(list(pairs)) if is_end(one, other)), None)


def heard(answers: Answers, batch: Batch) -> list[Call]:
    """The calls of one pass."""
    found: list[Call] = []
    with calls(answers.setup.eager, found.append):
        answers.to(batch)
    return found


def is_end(one: Call, other: Call) -> bool:
    """Whether a call was given other values of real numbers, or indices, and gave the same real numbers."""
    given = any(not same(a, b) for a, b in zip(one.given, other.given, strict=False))
    made = [t for t in one.made if t.is_floating_point()]
    return given and bool(made) and all(map(same, one.made, other.made))


def same(before: Tensor, after: Tensor) -> bool:
    """Whether two tensors are equal."""
    return before.shape == after.shape and torch.equal(before, after)
