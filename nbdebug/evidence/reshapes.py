"""Reshapes after which the lengths of axes have changed places, while the values have not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import torch
from torch import nn

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, CallWatch, calls
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.mixing import mixing
from nbdebug.exceptions import NotChecked
from nbdebug.graph.running import Running

Shape = tuple[int, ...]
RESHAPES = {"view", "reshape", "view_as", "reshape_as"}


@dataclass(frozen=True)
class Scrambled:
    """A reshape, the shapes before and after it, and the axes of each that it runs into one another."""

    call: Call
    before: Shape
    after: Shape
    taken: Shape
    given: Shape

    def concerns(self, size: int) -> bool:
        """Whether one of its axes may be that of the samples, which comes first where the reshape leaves it alone."""
        return size in self.taken and not self.before[0] == self.after[0] == size


@measurement
def scrambled(answers: Answers) -> list[Scrambled]:
    """Reshapes of the forward pass, or of the loss, that a permutation of axes should have been.

    One that concerns the axis of the samples counts in the forward pass only if outputs depend on other samples.
    """
    inside: list[Scrambled] = []
    with calls(answers.setup.eager, lambda call: inside.extend(swaps(call))):
        answers.to(answers.batch)
    size = answers.batch.size
    if any(one.concerns(size) for one in inside) and not mixes(answers):
        inside = [one for one in inside if not one.concerns(size)]
    return inside + swaps_of_loss(answers)


def mixes(answers: Answers) -> bool:
    """Whether outputs depend on other samples, as far as that can be told."""
    try:
        return bool(mixing(answers).touched)
    except NotChecked:
        return False


def swaps_of_loss(answers: Answers) -> list[Scrambled]:
    """Those of the user's loss, given the output of the model; none where the loss refuses it."""
    found: list[Scrambled] = []
    setup = answers.setup
    try:
        with torch.no_grad():
            output = setup.predict(answers.batch)
            with CallWatch(Running(), lambda call: found.extend(swaps(call))):
                setup.loss_of(output, answers.batch)
    except Exception:
        return []
    return found


def swaps(call: Call) -> Iterator[Scrambled]:
    """The runs of axes whose lengths have changed places, where a call is a reshape."""
    if call.name in RESHAPES and call.given and not isinstance(call.given[0], nn.Parameter):
        before, after = tuple(call.given[0].shape), tuple(call.made[0].shape)
        for taken, given in groups(before, after):
            if is_swap(taken, given):
                yield Scrambled(call, before, after, taken, given)


def groups(before: Shape, after: Shape) -> Iterator[tuple[Shape, Shape]]:
    """The shortest runs of axes that hold as many values before as after; axes of one place belong to none."""
    long, short = (tuple(n for n in shape if n != 1) for shape in (before, after))
    ends = list(accumulate(long, mul))
    others = list(accumulate(short, mul))
    i = j = 0
    for end in sorted(set(ends) & set(others)):
        yield long[i : ends.index(end) + 1], short[j : others.index(end) + 1]
        i, j = ends.index(end) + 1, others.index(end) + 1


def is_swap(taken: Shape, given: Shape) -> bool:
    """Whether both runs hold the same lengths in another order, where one axis may be split into several."""
    if min(len(taken), len(given)) < 2 or taken == given:
        return False
    fewer, more = sorted((Counter(taken), Counter(given)), key=lambda lengths: lengths.total())
    return (fewer - more).total() <= 1
