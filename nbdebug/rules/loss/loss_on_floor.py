"""L218: the loss sits at the smallest value that this head can reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from nbdebug.curves import Course, reading
from nbdebug.evidence.first_pass import Pass
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.overfit.head_floor import HeadFloor

UNBOUNDED = 10.0  # times the loss at the start, under zero: no loss that is bounded lies there


@rule("L218", "warning")
def loss_on_floor(setup: Setup, first_pass: Pass, record: Record, *, near: float = 0.15) -> Iterator[Finding]:
    """The loss sits at the smallest value that this head can reach, well above what the labels allow.

    ## What it does
    Looks, when a run has come to rest, whether its loss is what the best output of this head would get, while outputs
    of the kind that the loss is made for could get far less.

    ## Why it matters
    The network may be right about every sample and still show a large loss: its head cannot say so. The gradient goes
    on pulling at weights that have nothing to gain, and curves of loss can be compared with nothing.

    ## How it is measured
    On your first batch, by your own loss, L-BFGS looks for the lowest loss twice: of outputs that are free, and of
    outputs within the range of the activation that ends the model (sigmoid, tanh, ReLU, softplus, softmax). Speaks when
    the two lie apart by a tenth of where the run began, and the run ended within ``near`` of the way from its start to
    the higher one.

    ## How to fix
    Drop the activation that the message names, or scale the targets into its range.

    ## When to ignore
    When a floor is meant, as a bound on confidence.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: the input is expected to hold unnormalized logits.
    """
    from nbdebug.tools.overfit.head_floor import head_floor

    course = reading.settled(record)
    if not course.known or not course.finite:
        raise NotChecked("the loss of your loop cannot be compared with that of a batch")
    if course.late.falls and -course.late.change > 0.1 * abs(course.end):
        raise NotChecked("the loss still falls")
    floor = head_floor(setup, first_pass.output, first_pass.batch)
    if floor.free < min(floor.reached, 0) - UNBOUNDED * abs(course.start):
        raise NotChecked("a loss of your own has no floor where outputs are free: it is meant for a range")
    if sits(course, floor, near):
        yield finding(course, floor)


def sits(course: Course, floor: HeadFloor, near: float) -> bool:
    """Whether the run ended at the floor of the head, well above that of any output."""
    apart = floor.reached - floor.free > 0.1 * max(abs(course.start), 1e-12)
    room = near * max(course.start - floor.reached, floor.reached - floor.free) + 4 * course.error
    return apart and floor.reached - room <= course.end <= floor.reached + room


def finding(course: Course, floor: HeadFloor) -> Finding:
    """Both floors beside where the loss stands."""
    return Finding(
        message=f"The loss came to rest at {course.end:.4g}; the best output that {floor.call.lower()} can give gets "
        f"{floor.reached:.4g}, a free one {floor.free:.4g}.",
        cause=f"The output ends in {floor.call.lower()}, which gives {floor.reach}; the loss asks for more.",
        fix=f"# drop the {floor.call.lower()} at the end of the model, or scale the targets into its range",
        evidence={"end": course.end, "floor of the head": floor.reached, "floor": floor.free, "activation": floor.call},
        explains=("T606", "T610", "T607"),
    )


def bad() -> Setup:
    """A softmax in front of cross-entropy."""
    model = nn.Sequential(*layers(8, 32, 2), nn.Softmax(1))
    return run(model, rings(), rings(256, seed=1), nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)


def good() -> Setup:
    """Logits."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
