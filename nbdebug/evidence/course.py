"""The course of a run, as its record tells it."""

from __future__ import annotations

from nbdebug.curves import Course, course_of
from nbdebug.errors import NotChecked
from nbdebug.evidence.ledger import measurement
from nbdebug.record import Record

FEWEST, YOUNG, EPOCHS = 12, 500, 3


@measurement
def course(record: Record) -> Course:
    """Level, noise, trend and baselines of the loss of a run."""
    seen = len(record.series("loss")[1])
    if seen < FEWEST:
        raise NotChecked(f"{seen} losses of your loop were seen; a course needs {FEWEST}")
    return course_of(record)


@measurement
def settled_course(record: Record, course: Course) -> Course:
    """The course of a run that is over, or has gone on for long enough to be judged by where it stands."""
    young = course.count < max(YOUNG, EPOCHS * course.per_epoch)
    if young and not record.about.get("finished", True):
        raise NotChecked(f"the run is at step {course.count}, too early to judge where it stands")
    return course
