"""Whether a sequence model reads what comes after the place that it answers for."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.evidence.ahead import Ahead, another, by_place
from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, calls
from nbdebug.evidence.following import Meeting, followed
from nbdebug.evidence.ledger import measurement
from nbdebug.setup import Batch

PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum"}
MASKING = {"masked_fill", "where", "add", "sub"}


@dataclass(frozen=True)
class Future:
    """What the inputs after ``place`` did: the counted places up to it that answer differently, and where they meet.

    ``culprit`` is the first meeting, or the mask or softmax behind it, since scores of attention may hold all places.
    """

    place: int
    before: int
    touched: tuple[int, ...]
    meetings: tuple[Meeting, ...]
    culprit: Call | None = None


@measurement
def future(answers: Answers, ahead: Ahead) -> Future:
    """The places of the output that depend on inputs after them."""
    place = ahead.length // 2
    changed = after_changed(answers, ahead, place)
    moved = by_place(answers.differs(answers.to(changed)[0]), ahead.target, ahead.axis)
    counted = [t for t in ahead.counted if t <= place]
    touched = tuple(t for t in counted if bool(moved[t].any()))
    later = range(place + 1, ahead.length)
    meetings = followed(answers, changed, later, ahead.length) if touched else ()
    return Future(place, len(counted), touched, meetings, culprit(answers, meetings[0].call) if meetings else None)


def culprit(answers: Answers, meeting: Call) -> Call:
    """The mask that scores go through before their softmax, else that softmax; the meeting where it is no product."""
    if meeting.name not in PRODUCTS:
        return meeting
    heard: list[Call] = []
    with calls(answers.setup.eager, heard.append):
        answers.to(answers.batch)
    start = next((i for i, call in enumerate(heard) if (call.name, call.line) == (meeting.name, meeting.line)), 0)
    scores, mask = {id(t) for t in heard[start].made}, None
    for call in heard[start + 1 :]:
        if not scores & {id(t) for t in call.given}:
            continue
        scores |= {id(t) for t in call.made}
        mask = call if call.name in MASKING else mask
        if call.name == "softmax":
            return mask or call
    return meeting


def reads_itself(answers: Answers, ahead: Ahead) -> bool:
    """Whether the output at a place depends on the input there; it does not where the model shifts its input."""
    place = ahead.length // 2
    moved = answers.differs(answers.to(after_changed(answers, ahead, place - 1))[0])
    return bool(by_place(moved, ahead.target, ahead.axis)[place].any())


def after_changed(answers: Answers, ahead: Ahead, place: int) -> Batch:
    """The batch with other inputs at all places after one."""
    given = answers.inputs[ahead.name]
    changed = given.clone()
    changed.movedim(ahead.axis, 0)[place + 1 :] = another(given).movedim(ahead.axis, 0)[place + 1 :]
    return answers.changed(lambda one: changed if one is given else one)
