"""The shape of a loss curve, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nbdebug.curves import levels, rates, splits, swings
from nbdebug.curves.course import Course, course_of
from nbdebug.record import Record

FEWEST = 12


@dataclass(frozen=True)
class Shape:
    """The name of a shape, and one sentence of what it looks like with its numbers."""

    name: str
    sentence: str


def shape(record: Record) -> Shape:
    """The shape of the loss of a run: the first of the known ones that fits, else that of a healthy run."""
    seen = len(record.series("loss")[1])
    if seen == 0:
        return Shape("no loss", "No loss was seen.")
    course = course_of(record)
    if not np.isfinite(course.loss[:3]).all():
        return Shape("NaN at once", "The loss was not finite from the first steps on.")
    if seen < FEWEST:
        return Shape("too short", f"{seen} steps are too few to tell a shape from.")
    return next(found for look in LOOKS if (found := look(course)) is not None)


def too_high(course: Course) -> Shape | None:
    """The loss is thrown up, and stays up."""
    if found := rates.too_high(course):
        if found.diverged:
            return Shape("rate too high", f"The loss grew from {course.start:.3g} without end.")
        return Shape("rate too high", f"The first steps threw the loss up to {found.jump:.3g} times where it began.")
    return None


def diverging(course: Course) -> Shape | None:
    """The loss rises."""
    found = swings.diverging(course)
    return Shape("diverging", f"The loss rose from {found.lowest:.3g} to {found.end:.3g}.") if found else None


def overfitting(course: Course) -> Shape | None:
    """The validation loss turns up."""
    found = splits.overfitting(course)
    text = "The validation loss was lowest at step {0.step} ({0.lowest:.3g}), and is {0.last:.3g} at the end."
    return Shape("overfitting", text.format(found)) if found else None


def better(course: Course) -> Shape | None:
    """The validation loss stays far below that of training."""
    found = splits.validation_better(course)
    text = "In eval mode the loss is {0.val:.3g} on validation samples and {0.train:.3g} on training samples."
    return Shape("better on validation", text.format(found)) if found else None


def rhythm(course: Course) -> Shape | None:
    """A pattern comes again every epoch."""
    found = swings.epoch_rhythm(course)
    text = f"The loss repeats a pattern every {course.per_epoch} steps, an epoch."
    return Shape("epoch rhythm", text) if found else None


def spiked(course: Course) -> Shape | None:
    """Single steps tower over the others."""
    if not (places := swings.spiked(course)):
        return None
    late = places[0] > len(course.loss) / 2 and course.best < 0.5 * course.start
    text = f"The loss leaps at {len(places)} of {len(course.loss)} steps, first at step {int(course.steps[places[0]])}."
    return Shape("falls then spikes" if late else "spike", text)


def too_low(course: Course) -> Shape | None:
    """The loss creeps."""
    if not (found := rates.too_low(course)):
        return None
    text = f"The loss creeps from {course.start:.3g} to {course.end:.3g}; all steps end to end are {found.way:.2g} of"
    return Shape("rate too low", f"{text} the length of the weights.")


def stuck(course: Course) -> Shape | None:
    """The loss is that of a constant guess."""
    text = f"The loss ends at {course.end:.3g}; a constant guess gets {course.chance or 0:.3g}."
    return Shape("stuck at chance", text) if levels.stuck(course) else None


def stalled(course: Course) -> Shape | None:
    """The loss stops well above zero: by the model where both splits agree, else for a reason that is not seen."""
    if not (found := levels.plateau(course)):
        return None
    text = f"The loss has gained nothing since step {found.since}, at {course.standing}."
    alike = len(course.val.loss) and course.val.loss[-1] < 1.2 * course.train.loss[-1]
    return Shape("under-capacity", f"{text} Validation is no worse.") if alike else Shape("stalled", text)


def falling(course: Course) -> Shape | None:
    """The loss is still on its way down."""
    found = levels.still_falling(course)
    return (
        Shape("still falling", f"The last quarter of the run gained {found.gain:.0%} of what was left.")
        if found
        else None
    )


def healthy(course: Course) -> Shape:
    """The loss falls and settles."""
    return Shape("healthy", f"The loss fell from {course.start:.3g} to {course.end:.3g}.")


LOOKS: tuple[Callable[[Course], Shape | None], ...] = (
    *(too_high, diverging, overfitting, better, rhythm, spiked, too_low, stuck, stalled, falling, healthy),
)
