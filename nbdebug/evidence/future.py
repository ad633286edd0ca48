"""Whether a sequence model reads what comes after the place that it answers for."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.evidence.ahead import Ahead, another, by_place
from nbdebug.evidence.answers import Answers
from nbdebug.evidence.following import Meeting, followed
from nbdebug.evidence.ledger import measurement
from nbdebug.setup import Batch


@dataclass(frozen=True)
class Future:
    """What the inputs after ``place`` did: the counted places up to it that answer differently, and where they meet."""

    place: int
    before: int
    touched: tuple[int, ...]
    meetings: tuple[Meeting, ...]


@measurement
def future(answers: Answers, ahead: Ahead) -> Future:
    """The places of the output that depend on inputs after them."""
    place = ahead.length // 2
    changed = after_changed(answers, ahead, place)
    moved = by_place(answers.differs(answers.to(changed)[0]), ahead.target, ahead.axis)
    counted = [t for t in ahead.counted if t <= place]
    touched = tuple(t for t in counted if bool(moved[t].any()))
    later = range(place + 1, ahead.length)
    return Future(place, len(counted), touched, followed(answers, changed, later, ahead.length) if touched else ())


def after_changed(answers: Answers, ahead: Ahead, place: int) -> Batch:
    """The batch with other inputs at all places after one."""
    given = answers.inputs[ahead.name]
    changed = given.clone()
    changed.movedim(ahead.axis, 0)[place + 1 :] = another(given).movedim(ahead.axis, 0)[place + 1 :]
    return answers.changed(lambda one: changed if one is given else one)
