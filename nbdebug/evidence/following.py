"""A changed part of the input followed through the calls of a forward pass, to where it leaves its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, calls
from nbdebug.setup import Batch


@dataclass(frozen=True)
class Meeting:
    """A call that took the changed places apart from the others and gave a result in which they have met.

    ``axis`` is where the places lay in ``shape``, that of its first changed input; None where no axis held them any
    more, since the call ``dealt``.
    """

    call: Call
    shape: tuple[int, ...]
    axis: int | None
    dealt: Call | None = None


def followed(answers: Answers, changed: Batch, places: Sequence[int], length: int) -> tuple[Meeting, ...]:
    """The calls in which a change at some ``places`` of an axis of ``length`` spreads to others, in their order."""
    return tuple(Following(answers, changed, places, length).found)


class Following:
    """Compares two passes call by call.

    The changed places own their share of the values of each tensor. Where more of them change, places have met.
    """

    def __init__(self, answers: Answers, changed: Batch, places: Sequence[int], length: int) -> None:
        self.places, self.length = list(places), length
        self.before: list[tuple[Tensor, ...]] = []
        self.alive: list[Tensor] = []
        self.found: list[Meeting] = []
        self.dealt: dict[int, Call] = {}
        with calls(answers.setup.eager, lambda call: self.before.append(tuple(t.clone() for t in call.made))):
            answers.to(answers.batch)
        inputs = Answers(answers.setup, changed).inputs
        self.masks = {id(after): after != answers.inputs[name] for name, after in inputs.items()}
        with calls(answers.setup.eager, self.compare):
            answers.to(changed)

    def compare(self, call: Call) -> None:
        """One call of the second pass against the same call of the first; stops where the passes part."""
        before = self.before.pop(0) if self.before else ()
        if [t.shape for t in before] != [t.shape for t in call.made]:
            self.before.clear()
            return
        given = [t for t in call.given if id(t) in self.masks]
        apart = not any(self.is_mixed(t) for t in given)
        given = [t for t in given if bool(self.masks[id(t)].any())]
        axes = [(tuple(t.shape), self.axis(t)) for t in given]
        dealt = next((self.dealt[id(t)] for t in given if id(t) in self.dealt), None)
        self.alive += [*call.given, *call.made]
        self.masks.update({id(new): old != new for old, new in zip(before, call.made, strict=True)})
        if axes and bool(self.masks[id(call.made[0])].any()) and self.axis(call.made[0]) is None:
            self.dealt[id(call.made[0])] = dealt or call
        if apart and self.is_mixed(call.made[0]):
            self.found.append(Meeting(call, *(axes[0] if axes else ((), None)), dealt))

    def is_mixed(self, tensor: Tensor) -> bool:
        """Whether more values of a tensor changed than the changed places own."""
        mask = self.masks[id(tensor)]
        return int(mask.sum()) * self.length > mask.numel() * len(self.places)

    def axis(self, tensor: Tensor) -> int | None:
        """The axis along which the places lie: of their length, and changed at them alone."""
        mask = self.masks[id(tensor)]
        for axis in range(mask.dim()):
            along = mask.movedim(axis, 0).flatten(1).any(1) if mask.dim() > 1 else mask
            if len(along) == self.length and along.nonzero().flatten().tolist() == self.places:
                return axis
        return None
