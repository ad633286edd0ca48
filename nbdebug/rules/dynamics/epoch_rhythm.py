"""T612: the loss repeats a pattern every epoch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading, swings
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup

EPOCHS, BATCHES = 3, 6


@rule("T612", "warning")
def epoch_rhythm(record: Record) -> Iterator[Finding]:
    """The loss repeats a pattern every epoch.

    ## What it does
    Folds the loss at the length of an epoch and looks whether each epoch has the same slow waves.

    ## Why it matters
    Samples in an order, such as class after class, pull the weights one way and then the other: what an epoch ends on
    is known, and the rest forgotten. States that are carried through an epoch, or statistics that are stale, look
    alike.

    ## How it is measured
    It takes three epochs of six batches. What each epoch has beside its own mean and the drift of learning correlates
    with the others by 0.6; half of the pattern's variance lies in the slowest sixth of its waves (periodogram), or
    fixed training samples between epochs cost thrice what batches do while they are trained on; and its slow swing is
    half of the usual loss. A fixed order of batches that are alike repeats only quick differences between batches,
    which do not count; nor does an order from easy to hard, after which those fixed samples cost no more than the
    batches of the epoch did on the mean.

    ## How to fix
    ``DataLoader(dataset, shuffle=True)``; reset hidden states at the start of each epoch.

    ## When to ignore
    When the order is meant, as in a curriculum or a series in time.

    ## References
    Bengio 2012, arXiv:1206.5533, section 3.1: the order of examples.
    """
    course = reading.course(record)
    if course.per_epoch < BATCHES or len(course.loss) < EPOCHS * course.per_epoch:
        raise NotChecked(f"a rhythm takes {EPOCHS} epochs of {BATCHES} batches or more")
    if (found := swings.epoch_rhythm(course)) is None:
        return
    yield Finding(
        message=f"The loss repeats a pattern every {course.per_epoch} steps, one epoch: a swing of {found.swing:.3g}, "
        f"in which {found.periods} epochs agree by {found.agreement:.2f}.",
        cause="Samples come in an order that means something, or a state is carried through each epoch.",
        fix="loader = torch.utils.data.DataLoader(dataset, batch_size=loader.batch_size, shuffle=True)",
        evidence={"period": course.per_epoch, "swing": found.swing, "agreement": found.agreement, "slow": found.waves},
        explains=("T604", "T605"),
    )


def bad() -> Setup:
    """Class after class, and steps that forget."""
    x, y = rings()
    order = y.argsort(stable=True)
    model = layers(8, 32, 2)
    given = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.2), "batch_size": 16, "shuffle": False}
    return run(model, (x[order], y[order]), rings(256, seed=1), torch.nn.CrossEntropyLoss(), **given)


def bad_loop(setup: Setup) -> None:
    """Eight epochs."""
    train(setup, 8)


def good() -> Setup:
    """By lot."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
