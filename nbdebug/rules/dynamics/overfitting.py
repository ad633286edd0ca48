"""T609: the validation loss turns up while the training loss falls."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading, splits
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, told_apart, train
from nbdebug.setup import Setup


@rule("T609", "warning")
def overfitting(record: Record, *, rise: float = 0.1) -> Iterator[Finding]:
    """The validation loss turns up while the training loss falls.

    ## What it does
    Follows the loss of fixed samples of both splits, in eval mode, and looks whether that of validation has a lowest
    point behind it while that of training goes on falling.

    ## Why it matters
    From that point on the network learns the training samples by heart; it was at its best then.

    ## How it is measured
    On up to 256 fixed samples of each split, measured between epochs, or by your own validation. It takes four
    measurements, of which two after the lowest one; the end lies over it by a ``rise`` of a tenth and by a thirtieth of
    a constant guess, along a line that goes up, while training fell by a third or is at nothing. A validation score of
    0.97 makes it moot. With fewer measurements it speaks where validation samples cost more at the end than before
    training, by a seventh, and more than a constant guess.

    ## How to fix
    Keep the weights of the best measurement. More data, augmentation, weight decay, dropout, or fewer parameters.

    ## When to ignore
    When only the score matters and it still rises: then the network grows too sure of itself (E703).

    ## References
    Prechelt 1998, Early Stopping, But When? Neural Networks: Tricks of the Trade.
    """
    course = reading.settled(record)
    if max(len(course.val.loss), len(course.own.loss)) < 2:
        raise NotChecked("no validation was seen; give a val_loader")
    if (found := splits.overfitting(course, rise)) is None:
        return
    yield Finding(
        message=f"The validation loss was lowest at step {found.step} ({found.lowest:.4g}) and is {found.last:.4g} at "
        f"the end, while the training loss fell to {found.train:.4g}.",
        where=Where(step=found.step),
        cause="From there on the network learns its training samples by heart.",
        fix="optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)   # and keep the best weights",
        evidence={
            "lowest": found.lowest,
            "step": found.step,
            "last": found.last,
            "training": found.train,
            "validation score": course.val.last_score,
            "training samples": record.about.get("train_samples"),
        },
        explains=("E703", "E706"),
    )


def bad() -> Setup:
    """A wide network on 64 samples, of whose labels some are wrong."""
    data = rings(64, noise=0.3), rings(256, noise=0.3, seed=1)
    return run(layers(8, 128, 128, 2), *data, torch.nn.CrossEntropyLoss(), batch_size=16)


def bad_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)


def good() -> Setup:
    """A small one on all samples."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
