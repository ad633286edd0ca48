"""T611: validation beats training beyond what dropout and averaging explain."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.curves import reading, splits
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, run, told_apart, train, waves
from nbdebug.setup import Setup


@rule("T611", "warning")
def validation_better(record: Record) -> Iterator[Finding]:
    """Validation beats training beyond what dropout and averaging explain.

    ## What it does
    Compares the loss of fixed samples of both splits, both in eval mode and with the same weights, so that neither
    dropout, nor batch statistics, nor the mean over an epoch in which the weights moved can make a difference.

    ## Why it matters
    Validation that is easier than training is another task: it repeats samples, lacks the hard ones, or its labels are
    cleaner. What it says of new data is too good.

    ## How it is measured
    At each of the last three measurements, or at the only one by a third where there is no more, the validation loss is
    under half of the training loss, by more than the two differed before training, and by a tenth of a constant guess;
    or its score is the better one by a fifth. A note where the training samples are learned well all the same, as
    augmented ones can be that are harder on purpose.

    ## How to fix
    Look at samples of both splits side by side: labels, classes, transforms. Split the same data by lot.

    ## When to ignore
    When only training samples are augmented, mixed or noisy on purpose.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 5.3.1.
    """
    course = reading.settled(record)
    if len(course.val.loss) < 2:
        raise NotChecked("validation samples were not measured")
    if (found := splits.validation_better(course)) is None:
        return
    yield Finding(
        message=f"With the same weights in eval mode the loss is {found.val:.4g} on validation samples and "
        f"{found.train:.4g} on training samples.",
        cause="Validation samples are easier: cleaner labels, fewer classes, or copies of what was trained on.",
        fix="train, val = torch.utils.data.random_split(dataset, [0.8, 0.2])   # one data set, split by lot",
        evidence={
            "validation": found.val,
            "training": found.train,
            "validation score": course.val.last_score,
            "training score": course.train.last_score,
        },
        severity=None if found.poor else "note",
    )


def bad() -> Setup:
    """Noise in the training targets, none in those of validation."""
    x, y = waves(1500)
    noise = 0.7 * torch.randn(y.shape, generator=torch.Generator().manual_seed(5))
    return run(layers(4, 32, 1), (x, y + noise), waves(256, seed=1), torch.nn.MSELoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """True labels in both."""
    return told_apart()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
