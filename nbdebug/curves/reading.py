"""The course of a record for a rule that asks for it, or why there is none yet."""

from __future__ import annotations

import weakref

from nbdebug.curves.course import Course, course_of
from nbdebug.exceptions import NotChecked
from nbdebug.record import Record

FEWEST, YOUNG, EPOCHS = 12, 500, 3

Key = tuple[int, ...]
latest: list[tuple[weakref.ref[Record], Key, Course]] = []


def course(record: Record) -> Course:
    """Level, noise, trend and baselines of the loss of a run; raises NotChecked where too little was seen.

    That of the record that was asked about last is kept, since many rules ask in turn.
    """
    tables = (record.run, record.evaluations, record.layers)
    key = (*(one.rows for one in tables), record.steps, len(record.about))
    if latest and latest[0][0]() is record and latest[0][1] == key:
        return latest[0][2]
    seen = len(record.series("loss")[1])
    if seen < FEWEST:
        raise NotChecked(f"{seen} losses of your loop were seen; a course needs {FEWEST}")
    found = course_of(record)
    latest[:] = [(weakref.ref(record), key, found)]
    return found


def settled(record: Record) -> Course:
    """The course of a run that is over, or has gone on for long enough to be judged by where it stands."""
    found = course(record)
    young = found.count < max(YOUNG, EPOCHS * found.per_epoch)
    if young and not record.about.get("finished", True):
        raise NotChecked(f"the run is at step {found.count}, too early to judge where it stands")
    return found
