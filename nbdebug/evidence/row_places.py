"""Whether what a sample is answered depends on its place in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers, written_out
from nbdebug.evidence.calls import Call, calls
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.mixing import Mixing, is_of_samples
from nbdebug.preserve import seed_all
from nbdebug.setup.losses import scores


@measurement
def row_places(answers: Answers, mixing: Mixing) -> Call | None:
    """The first call whose result for a sample depends on the sample's place, where that changes the output.

    Every sample is moved on by one place in eval mode. Models whose samples meet, or that draw random numbers, are
    left alone.
    """
    if mixing.touched:
        return None
    before = answers.first[0]
    moved = answers.changed(lambda t: t.roll(1, 0) if is_of_samples(t, mixing.size) else t)
    after = answers.to(moved)[0]
    if after.shape != before.shape or not bool(answers.differs(after.roll(-1, 0)).any()) or is_random(answers):
        return None
    heard: list[Call] = []
    with calls(answers.setup.eager, heard.append):
        answers.to(answers.batch)
    again: list[Call] = []
    with calls(answers.setup.eager, again.append):
        answers.to(moved)
    pairs = zip(heard, again, strict=False)
    return next((call for call, other in pairs if is_first(call, other, mixing.size)), None)


def is_first(call: Call, other: Call, size: int) -> bool:
    """Whether a call was given moved samples and gave something that is not moved alike."""
    given = list(zip(call.given, other.given, strict=False))
    moves = any(not is_alike(a, b) for a, b in given)
    return moves and all(is_moved(a, b, size) for a, b in given) and not is_moved(call.made[0], other.made[0], size)


def is_alike(before: Tensor, after: Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    return before.shape == after.shape and torch.allclose(before, after, rtol=1e-4, atol=1e-6, equal_nan=True)


def is_moved(before: Tensor, after: Tensor, size: int) -> bool:
    """Whether a tensor has no part in the move, or was moved by one sample along an axis that holds the samples."""
    axes = [axis for axis, length in enumerate(before.shape) if length and length % size == 0]
    return is_alike(before, after) or any(
        is_alike(before.roll(before.shape[axis] // size, axis), after) for axis in axes
    )


def is_random(answers: Answers) -> bool:
    """Whether other random numbers give another answer."""
    with torch.no_grad(), written_out(answers.setup.eager, training=False):
        seed_all(1)
        other = scores(answers.setup.predict(answers.batch))
    return not isinstance(other, Tensor) or bool(answers.differs(other.detach()).any())
