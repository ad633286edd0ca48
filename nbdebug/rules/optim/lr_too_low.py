"""O502: the learning rate is too low for this run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.curves import reading
from nbdebug.curves.rates import too_low
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.search import line_setting
from nbdebug.graph.source import where_of
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.rules.optim.lr_too_high import peak_rate
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored

if TYPE_CHECKING:
    from nbdebug.tools.lr_range import LrRange


@rule("O502", "warning")
def lr_too_low(
    setup: Setup, record: Record | NotChecked, lr_range: LrRange | NotChecked, *, way: float = 0.5
) -> Iterator[Finding]:
    """The learning rate is too low: the weights cannot have come far, and the loss creeps.

    ## What it does
    Adds up all steps of each layer, against the length of its weights, and compares with what became of the loss. A
    range test tells before there is a run.

    ## Why it matters
    A network that is where it was initialized has learned next to nothing. It looks like a hard task, or like a bug,
    and is neither.

    ## How it is measured
    All steps end to end bound how far a layer can have moved. Where three layers in four come to less than half
    (``way``) of the length of their weights, none to more than all of it, at steps under 1/400 of them, and six tenths
    of a constant guess are left, the rate is too low. So it is where a loss creeps down along a straight line, at eight
    tenths of a constant guess after a hundred steps, or keeps falling at steps under 1/800. Weights that do not move at
    all have another reason (O503, M301, O507). In a range test: the rate is a tenth of the recommended ones or less,
    and the loss had made less than a tenth of its way down there.

    ## How to fix
    Ten times the rate, then ten times again, until the loss falls within the first epoch.

    ## When to ignore
    When a model that was trained before is only to be adjusted.

    ## References
    CS231n notes: the ratio of updates to weights, about 1e-3, and loss curves by rate.
    """
    if not isinstance(lr_range, NotChecked):
        yield from of_range_test(setup, lr_range)
        return
    if isinstance(record, NotChecked):
        raise record
    course = reading.settled(record)
    if not course.travel.ways:
        raise NotChecked("no step of the weights was seen")
    if course.count < 20:
        raise NotChecked(f"{course.count} steps are too few to tell a low rate from a short run")
    if (found := too_low(course, way)) is None:
        return
    rate = peak_rate(record)
    yield Finding(
        message=f"At a learning rate of {rate:.3g} a typical step moves a layer by {found.ratio:.1e} of its length, "
        f"all {course.count} steps end to end by {found.way:.2g}; the loss went from {course.start:.4g} to "
        f"{course.end:.4g}.",
        where=where_of(line_setting("lr", rate, authored(setup))),
        cause="Steps are so short that the network is still about where it was initialized.",
        fix=f"lr = {10 * rate:.1g}   # then ten times again, until the loss falls within the first epoch",
        evidence={
            "rate": rate,
            "way over weights": found.way,
            "step over weights": found.ratio,
            "start": course.start,
            "end": course.end,
            "constant guess": course.chance,
        },
        explains=("T601", "T606", "T607", "T608", "T610", "T614", "G409", "E709", "E706"),
    )


def of_range_test(setup: Setup, result: LrRange) -> Iterator[Finding]:
    """What a range test says of the present rate."""
    from nbdebug.tools.lr_range.judgement import judged

    found, rate, better = judged(result), result.current, result.suggestion
    if found.word != "too low" or rate is None or better is None or found.way is None:
        return
    yield Finding(
        message=f"At a learning rate of {rate:.3g} the loss of the range test is {found.way:.0%} of its way down, "
        f"and {better:.2g} is recommended.",
        where=where_of(line_setting("lr", rate, authored(setup))),
        cause="Steps are so short that the network is still about where it was initialized.",
        fix=f"lr = {better:.2g}",
        evidence={"rate": rate, "way down": found.way, "recommended": better},
        explains=("T601", "T606", "T607", "T608", "T610", "T614", "G409", "E709", "E706"),
    )


def bad() -> Setup:
    """Adam at 1e-5."""
    return run(layers(8, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=1e-5)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """Adam at 1e-2."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
