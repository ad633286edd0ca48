"""Which other samples a sample's output depends on, and the call that brings them together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.errors import NotChecked
from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, calls
from nbdebug.evidence.ledger import measurement
from nbdebug.setup import Batch
from nbdebug.setup.trees import tensors


@dataclass(frozen=True)
class Meeting:
    """A call that took the changed sample apart from the others and gave a result in which they have met.

    ``axis`` is where the samples lay in ``shape``, that of its first changed input; None where no axis held them.
    """

    call: Call
    shape: tuple[int, ...]
    axis: int | None


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
    return Mixing(0, size, touched, Following(answers, changed, size).meetings if touched else ())


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


class Following:
    """Follows the first sample, which was changed, through two passes, and keeps the calls in which others change too.

    A sample owns one part in ``size`` of the values of each tensor. Where more of them change, samples have met.
    """

    def __init__(self, answers: Answers, changed: Batch, size: int) -> None:
        self.size = size
        self.before: list[tuple[Tensor, ...]] = []
        self.masks: dict[int, Tensor] = {}
        self.alive: list[Tensor] = []
        self.found: list[Meeting] = []
        with calls(answers.setup.eager, lambda call: self.before.append(tuple(t.clone() for t in call.made))):
            answers.to(answers.batch)
        for name, tensor in Answers(answers.setup, changed).inputs.items():
            if is_of_samples(tensor, size):
                self.masks[id(tensor)] = tensor != answers.inputs[name]
        with calls(answers.setup.eager, self.compare):
            answers.to(changed)

    @property
    def meetings(self) -> tuple[Meeting, ...]:
        """The calls that mixed what was apart, in their order."""
        return tuple(self.found)

    def compare(self, call: Call) -> None:
        """One call of the second pass against the same call of the first; stops where the passes part."""
        before = self.before.pop(0) if self.before else ()
        if [t.shape for t in before] != [t.shape for t in call.made]:
            self.before.clear()
            return
        given = [t for t in call.given if id(t) in self.masks]
        apart = not any(self.is_mixed(t) for t in given)
        axes = [(tuple(t.shape), self.axis(t)) for t in given if bool(self.masks[id(t)].any())]
        self.alive += [*call.given, *call.made]
        self.masks.update({id(new): old != new for old, new in zip(before, call.made, strict=True)})
        if apart and any(self.is_mixed(t) for t in call.made):
            self.found.append(Meeting(call, *(axes[0] if axes else ((), None))))

    def is_mixed(self, tensor: Tensor) -> bool:
        """Whether more values of a tensor changed than one sample owns."""
        mask = self.masks[id(tensor)]
        return int(mask.sum()) * self.size > mask.numel()

    def axis(self, tensor: Tensor) -> int | None:
        """The axis along which the samples lie: as long as the batch, and changed at its first place alone."""
        mask = self.masks[id(tensor)]
        for axis in range(mask.dim()):
            along = mask.movedim(axis, 0).reshape(len(mask.movedim(axis, 0)), -1).any(1)
            if len(along) == self.size and along.nonzero().flatten().tolist() == [0]:
                return axis
        return None
