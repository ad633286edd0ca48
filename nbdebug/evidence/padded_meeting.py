"""The call in which padded places come to real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, calls
from nbdebug.evidence.following import followed
from nbdebug.exceptions import NotChecked


def padded_meeting(
    answers: Answers, padded: Tensor, change: Callable[[Tensor, Tensor], Tensor], told: Tensor | None
) -> Call | None:
    """Where the padding of the most padded sample, given other values by ``change``, first meets what is real.

    A call that applies the mask or the lengths in ``told`` before that is blamed in its place. None where the call
    cannot be found.
    """
    row = int(padded.sum(1).argmax())
    places = padded[row].nonzero().flatten().tolist()
    twice = padded[[row, row]]
    try:
        pair = replace(answers, batch=answers.batch.take([row, row]))
        changed = pair.changed(lambda one: one if is_copy(one, told, row) else change(one, twice))
        found = followed(pair, changed, places, padded.shape[1])
        return applied(pair, told, row, found[0].call) if found else None
    except (NotChecked, RuntimeError, ValueError, IndexError):
        return None


def is_copy(tensor: Tensor, told: Tensor | None, row: int) -> bool:
    """Whether a tensor holds one row of ``told``, twice."""
    return told is not None and tensor.shape[1:] == told.shape[1:] and torch.equal(tensor, told[[row, row]])


def applied(answers: Answers, told: Tensor | None, row: int, meeting: Call) -> Call:
    """The last call up to the meeting that joins what tells of padding with values; the meeting where none does."""
    heard: list[Call] = []
    with calls(answers.setup.eager, heard.append):
        answers.to(answers.batch)
    telling = {id(t) for t in answers.inputs.values() if is_copy(t, told, row)}
    found = meeting
    for call in heard:
        told_by = [t for t in call.given if id(t) in telling]
        if told_by and any(id(t) not in telling and t.is_floating_point() for t in call.given):
            found = call
        elif told_by:
            telling |= {id(t) for t in call.made}
        if (call.name, call.line) == (meeting.name, meeting.line):
            break
    return found
