"""O501: the learning rate is too high for this run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.curves import Course, reading
from nbdebug.curves.rates import TooHigh, too_high
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.search import line_setting
from nbdebug.graph.source import where_of
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored

if TYPE_CHECKING:
    from nbdebug.tools.lr_range import LrRange

WAKE = (
    *("T601", "T602", "T604", "T605", "T606", "T607", "T610", "T614", "E709", "M307"),
    *("G401", "G402", "G403", "G404", "G409", "G410", "G411", "G412", "G415", "G416"),
)


@rule("O501", "error")
def lr_too_high(
    setup: Setup, record: Record | NotChecked, lr_range: LrRange | NotChecked, *, overwritten: float = 0.15
) -> Iterator[Finding]:
    """The learning rate is too high: the first steps wreck the weights, or the loss grows without end.

    ## What it does
    Reads from your own run what its steps did: to the weights, whose layers they overwrote in part or whole, and to the
    loss, which they threw up or made grow without end. A range test tells before there is a run.

    ## Why it matters
    After such a start units are dead or saturated and the initialization is lost. The loss may come down again, and
    hangs where a rate ten times lower would never have stopped.

    ## How it is measured
    Against this run's own start. A first step of a typical layer as long as a seventh (``overwritten``) of its weights,
    together with a loss that is thrown to 1.5 times its start, that stays at nine tenths of a constant guess, or that
    hangs although every one of several layers had half of itself overwritten; or a loss that is thrown up fifteenfold;
    or one that ends over thrice its start, or grows a hundredfold until it is not finite. A usual step is a thousandth
    of the weights. A run that ends with a score of 0.97, or with a twentieth of the loss, went well, whatever its steps
    were. In a range test: the rate is one at which most sweeps had lost the loss for good.

    ## How to fix
    A tenth of the rate, and a warm-up if the first steps are still too long.

    ## When to ignore
    When the run was meant to find the highest rate.

    ## References
    CS231n notes: the ratio of updates to weights, about 1e-3. Smith 2017, arXiv:1506.01186: the range test.
    """
    if not isinstance(lr_range, NotChecked):
        yield from of_range_test(setup, lr_range)
        return
    if isinstance(record, NotChecked):
        raise record
    course = reading.course(record)
    if (found := too_high(course, overwritten)) is None:
        return
    rate = peak_rate(record)
    yield Finding(
        message=f"At a learning rate of {rate:.3g} {effect(found, course)}.",
        where=where_of(line_setting("lr", rate, authored(setup))),
        cause="Steps are longer than the region in which the gradient tells the way down.",
        fix=f"lr = {rate / 10:.1g}",
        evidence={
            "rate": rate,
            "start": course.start,
            "jump": found.jump,
            "end": course.end,
            "first step over weights": found.first,
            "constant guess": course.chance,
        },
        explains=(*WAKE, "T603", "G405", "G406", "T609") if found.diverged else WAKE,
    )


def of_range_test(setup: Setup, result: LrRange) -> Iterator[Finding]:
    """What a range test says of the present rate."""
    from nbdebug.tools.lr_range.judgement import judged

    found, rate = judged(result), result.current
    if found.word != "too high" or rate is None or found.lost is None:
        return
    better = result.suggestion or found.lost / 10
    yield Finding(
        message=f"At a learning rate of {rate:.3g} the range test loses the loss: it does from {found.lost:.2g} on.",
        where=where_of(line_setting("lr", rate, authored(setup))),
        cause="Steps are longer than the region in which the gradient tells the way down.",
        fix=f"lr = {better:.2g}",
        evidence={"rate": rate, "lost from": found.lost, "recommended": result.suggestion},
        explains=WAKE,
    )


def effect(found: TooHigh, course: Course) -> str:
    """What the steps did, in words."""
    if found.diverged:
        return f"the loss grew from {course.start:.4g} without end"
    moved = f"one of the first steps moved the weights of a typical layer by {found.first:.0%} of their length"
    threw = f"the loss was thrown up to {found.jump:.3g} times its start"
    return f"{f'{moved}, ' if found.first >= 0.05 else ''}{threw}, and it ended at {course.standing}"


def peak_rate(record: Record) -> float:
    """The highest rate of the run."""
    rates = record.series("lr")[1]
    return float(f"{float(rates.max()):.6g}") if len(rates) else 0.0


def bad() -> Setup:
    """Adam at 1."""
    return run(layers(8, 32, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=1.0)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """Adam at 0.01."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
