"""What a watched loop shows not to be so, of what a checkup had to assume."""

from __future__ import annotations

from nbdebug.curves.reading import course
from nbdebug.exceptions import NotChecked
from nbdebug.loop.loop import Loop
from nbdebug.record import Record

RAISES, OPERANDS, TARGETS = "the loss raises", "operands of the loss", "targets of the loss"
UNRELATED = "labels tell nothing"
LEAST_GAIN = 0.1  # of a score on held-out samples over that of the commonest class


def unmoved(parameter: str) -> str:
    """That nothing steps a parameter."""
    return f"{parameter} is not moved"


def unreached(parameter: str) -> str:
    """That no loss reaches a parameter."""
    return f"{parameter} is not reached"


def disproved(loop: Loop, record: Record) -> frozenset[str]:
    """The assumptions that a loop has disproved by what it did.

    A loop may reshape outputs, take other targets, pass arguments or step optimizers that the set-up does not show.
    """
    found = {unmoved(name) for name in loop.changed | loop.starved} | {unreached(name) for name in loop.touched}
    if loop.backwards:
        found.add(RAISES)
    given = loop.operands
    if given and not given.stretched and (given.real or given.kind in ("cross-entropy", "nll")):
        found.add(OPERANDS)
    if given and given.unit and given.kind in ("bce", "bce-with-logits"):
        found.add(TARGETS)
    if learned(record):
        found.add(UNRELATED)
    return frozenset(found)


def learned(record: Record) -> bool:
    """Whether the fixed validation samples are told apart better than by the commonest class."""
    try:
        seen = course(record)
    except NotChecked:
        return False
    score, common = seen.val.last_score, seen.majority
    return score is not None and common is not None and common > 0 and score > common + LEAST_GAIN
